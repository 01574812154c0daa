use std::collections::BTreeSet;

use loom_core::atomic::{Atomic, Form};
use loom_core::av::Av;
use loom_core::cq::Cq;
use loom_core::deadline::Forever;
use loom_core::domain::Domain;
use loom_core::endpoint::{Binding, Source};
use loom_core::immediate::Layout;
use loom_core::info::{Hints, Info};
use loom_core::soft::{Network, NetworkAttr};
use loom_core::vocabulary::{AtomicOp, Caps, Datatype, EndpointType, Mode, MrMode, MsgOrder, Progress, Tag, TagMatch};
use loom_core::{RangeError, data_layout};
use loom_static::profiles::{
    ALL, AtomicSet, AutoProgress, InjectCapable, ManualProgress, NativeAtomics, Profile, ProfileError, Promise, Shm,
    Sockets, Software, Udp,
};

const SOFT: Promise = Promise::of::<Software>();

fn info(network: &Network<'static>) -> Info<loom_core::soft::Soft<'static>> {
    network.query(&Software::hints()).expect("what the profile says can be asked for")
}

fn networks() -> [Network<'static>; 2] {
    [false, true].map(|strict| Network::new(NetworkAttr { strict, ..NetworkAttr::DEFAULT }).unwrap())
}

#[test]
fn a_network_keeps_its_profile_strict_or_not() {
    for network in networks() {
        Software::check(&info(&network)).unwrap();
    }
}

#[test]
fn a_network_of_short_messages_does_not_keep_it() {
    let network = Network::new(NetworkAttr { eager_size: 16, ..NetworkAttr::DEFAULT }).unwrap();
    let hints = Software::hints();
    assert!(network.query(&hints).is_err(), "it does not inject as much");
    let mut less = hints;
    less.tx_attr.inject_size = 0;
    let info = network.query(&less).unwrap();
    assert_eq!(Software::check(&info), Err(ProfileError::InjectSize { asked: Software::INJECT_SIZE, granted: 16 }));
}

#[test]
fn unmet_promises_are_named() {
    type Change = fn(&mut Promise);
    let network = Network::new(NetworkAttr::DEFAULT).unwrap();
    let info = info(&network);
    let inject = info.attributes().tx.inject_size;
    let greedy: [(Change, ProfileError); 10] = [
        (|promise| promise.name = "shm", ProfileError::Provider { asked: "shm" }),
        (
            |promise| promise.endpoint = EndpointType::MSG,
            ProfileError::EndpointType { asked: EndpointType::MSG, granted: EndpointType::RDM },
        ),
        (
            |promise| promise.caps |= Caps::MULTICAST | Caps::FENCE,
            ProfileError::Caps { missing: Caps::MULTICAST | Caps::FENCE },
        ),
        (|promise| promise.mr_mode.remove(MrMode::PROV_KEY), ProfileError::MrMode { excess: MrMode::PROV_KEY }),
        (|promise| promise.msg_order |= MsgOrder::RAS, ProfileError::MsgOrder { missing: MsgOrder::RAS }),
        (|promise| promise.inject_size = 1 << 30, ProfileError::InjectSize { asked: 1 << 30, granted: inject }),
        (|promise| promise.cq_data_size = 16, ProfileError::CqDataSize { asked: 16, granted: 8 }),
        (
            |promise| promise.control_progress = Progress::AUTO,
            ProfileError::ControlProgress { asked: Progress::AUTO, granted: Progress::MANUAL },
        ),
        (
            |promise| promise.data_progress = Progress::AUTO,
            ProfileError::DataProgress { asked: Progress::AUTO, granted: Progress::MANUAL },
        ),
        (|promise| promise.caps = Caps::MSG | Caps::HMEM, ProfileError::Caps { missing: Caps::HMEM }),
    ];
    for (change, short) in greedy {
        let mut promise = SOFT;
        change(&mut promise);
        assert_eq!(promise.check(&info), Err(short));
    }
    let mut asks = *info.attributes();
    for ask in [|all: &mut _| set_tx(all), |all: &mut _| set_rx(all)] {
        ask(&mut asks);
        assert_eq!(SOFT.check_attributes("soft", &asks), Err(ProfileError::Mode { excess: Mode::CONTEXT }));
        (asks.tx.mode, asks.rx.mode) = (Mode::empty(), Mode::empty());
    }
    asks.rx.msg_order.remove(MsgOrder::SAS);
    assert_eq!(SOFT.check_attributes("SOFT", &asks), Err(ProfileError::MsgOrder { missing: MsgOrder::SAS }));
}

fn set_tx(attributes: &mut loom_core::vocabulary::Attributes) {
    attributes.tx.mode = Mode::CONTEXT;
}

fn set_rx(attributes: &mut loom_core::vocabulary::Attributes) {
    attributes.rx.mode = Mode::CONTEXT;
}

data_layout! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Part {
        transfer: u32 = 32,
        index: u16 = 16,
    }
}

#[test]
fn endpoints_with_a_profile_inject_and_encode() {
    for network in networks() {
        let domain = Domain::open(&info(&network)).unwrap();
        let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 16).unwrap());
        let alice = Software::endpoint(cq.endpoint(&av).unwrap()).unwrap();
        let bob = Software::endpoint(cq.endpoint(&av).unwrap()).unwrap();
        let to_bob = av.insert(&bob.address().unwrap()).unwrap();
        let longest: [u8; Software::INJECT_SIZE] = core::array::from_fn(|index| index.to_le_bytes()[0]);

        let plain = bob.recv(Source::Any, vec![0; Software::INJECT_SIZE]).unwrap();
        cq.retry(Forever, || alice.inject_array(to_bob, &longest)).unwrap();
        assert_eq!(cq.finish(plain, Forever).unwrap().buf()[..], longest[..]);

        let tagged = bob.tagged_recv(Source::Any, TagMatch::exact(Tag(7)), vec![0; 5]).unwrap();
        cq.retry(Forever, || alice.clone().tagged_inject_array(to_bob, Tag(7), b"hello")).unwrap();
        assert_eq!(cq.finish(tagged, Forever).unwrap().buf(), b"hello");

        let part = Part { transfer: 3, index: 9 };
        let data = alice.encode(part).unwrap();
        let with_data = bob.recv(Source::Any, vec![0; 1]).unwrap();
        cq.retry(Forever, || alice.inject_data(to_bob, data, b"x")).unwrap();
        let done = cq.wait(with_data, Forever).unwrap().unwrap();
        assert_eq!(Part::decode(done.result().unwrap().data.unwrap()), Ok(part));

        assert_eq!(size_of_val(&alice), size_of_val(&alice.into_inner()), "the profile takes no room");
    }
}

#[test]
fn values_beyond_their_fields_are_not_encoded() {
    data_layout! {
        struct Narrow {
            index: u16 = 3,
        }
    }
    let network = Network::new(NetworkAttr::DEFAULT).unwrap();
    let domain = Domain::open(&info(&network)).unwrap();
    let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 16).unwrap());
    let alice = Software::endpoint(cq.endpoint(&av).unwrap()).unwrap();
    assert_eq!(alice.encode(Narrow { index: 8 }), Err(RangeError::ValueTooLarge { field: "index", width: 3 }));
}

struct Greedy;

impl Profile for Greedy {
    const NAME: &'static str = "soft";
    const ENDPOINT: EndpointType = EndpointType::RDM;
    const CAPS: Caps = Caps::MSG;
    const MR_MODE: MrMode = Software::MR_MODE;
    const ATOMICS: AtomicSet =
        AtomicSet { datatypes: &[Datatype::UINT64], base: &[AtomicOp::SUM, AtomicOp::NOOP], ..AtomicSet::NONE };
}

#[test]
fn an_endpoint_that_falls_short_comes_back() {
    let network = Network::new(NetworkAttr::DEFAULT).unwrap();
    let domain = Domain::open(&info(&network)).unwrap();
    let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 16).unwrap());
    let endpoint = cq.endpoint(&av).unwrap();

    let refused = Shm::endpoint(endpoint).unwrap_err();
    assert_eq!(refused.error, ProfileError::Provider { asked: "shm" });
    let refused = Greedy::endpoint(refused.endpoint).unwrap_err();
    let missing = Atomic { form: Form::Base, datatype: Datatype::UINT64, op: AtomicOp::NOOP };
    assert_eq!(refused.error, ProfileError::Atomic { missing });
    let text = refused.error.to_string();
    assert!(text.contains("NOOP") && text.contains("UINT64") && text.contains("base"), "{text}");
    Software::endpoint(refused.endpoint).unwrap();
}

#[test]
fn the_check_applies_to_the_info_of_the_endpoint() {
    let network = Network::new(NetworkAttr { strict: true, ..NetworkAttr::DEFAULT }).unwrap();
    let domain = Domain::open(&info(&network)).unwrap();
    let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 16).unwrap());
    let with = |hints: &Hints<'_>| {
        let info = network.query(hints).unwrap();
        let endpoint = cq.endpoint(Binding::to(&av).info(info.clone())).unwrap();
        Software::endpoint(endpoint).map(drop).map_err(|refused| refused.error)
    };
    let all = Software::hints();
    assert_eq!(with(&all), Ok(()));
    let fewer = Hints { caps: all.caps - Caps::TAGGED, ..all.clone() };
    assert_eq!(with(&fewer), Err(ProfileError::Caps { missing: Caps::TAGGED }));
    let unordered = Hints { caps: all.caps, ..Hints::default() };
    assert_eq!(with(&unordered), Err(ProfileError::MsgOrder { missing: Software::MSG_ORDER - MsgOrder::SAS }));
}

#[test]
fn a_provider_has_one_profile_for_each_kind_of_endpoint() {
    let names: BTreeSet<_> = ALL.iter().map(|promise| (promise.name, promise.endpoint)).collect();
    assert_eq!(names.len(), ALL.len());
    let providers: BTreeSet<_> = ALL.iter().map(|promise| promise.name).collect();
    for provider in [
        "soft",
        "shm",
        "sm2",
        "tcp",
        "tcp;ofi_rxm",
        "net",
        "udp",
        "udp;ofi_rxd",
        "sockets",
        "verbs",
        "verbs;ofi_rxm",
        "efa",
        "cxi",
        "opx",
        "psm",
        "psm2",
        "psm3",
        "ucx",
        "usnic",
        "lpp",
        "lnx",
    ] {
        assert!(providers.contains(provider), "{provider}");
    }
}

#[test]
fn profiles_agree_with_themselves() {
    for promise in ALL {
        let name = promise.name;
        assert_eq!(promise.caps.contains(Caps::ATOMIC), !promise.atomics.is_empty(), "{name}");
        assert_eq!(promise.atomics.iter().next().is_none(), promise.atomics.is_empty(), "{name}");
        assert!(promise.caps.intersects(Caps::MSG | Caps::TAGGED), "{name}");
        assert!([0, 4, 8].contains(&promise.cq_data_size), "{name}");
        assert!(!promise.mode.contains(Mode::MSG_PREFIX), "{name}: its buffers would need prefixes");
        let asked = promise.hints();
        assert!(
            !asked.domain_attr.mr_mode.intersects(MrMode::BASIC | MrMode::SCALABLE),
            "{name}: libfabric refuses them with others"
        );
        assert_eq!((asked.caps, asked.tx_attr.inject_size), (promise.caps, promise.inject_size), "{name}");
        assert_eq!(asked.endpoint_attr.kind, promise.endpoint, "{name}");
        let domain = asked.domain_attr;
        let progress =
            [(domain.control_progress, promise.control_progress), (domain.data_progress, promise.data_progress)];
        for (asked, kept) in progress {
            assert_eq!(asked, if kept == Progress::AUTO { kept } else { Progress::UNSPEC }, "{name}");
        }
    }
    let set = AtomicSet::INTEGERS;
    let of_one_form = [
        AtomicSet { fetch: &[], compare: &[], ..set },
        AtomicSet { base: &[], compare: &[], ..set },
        AtomicSet { base: &[], fetch: &[], ..set },
    ];
    assert!(of_one_form.iter().all(|set| !set.is_empty() && set.iter().next().is_some()));
    assert!(AtomicSet { datatypes: &[], ..set }.is_empty() && AtomicSet::NONE.is_empty());
    assert_eq!(set.iter().count(), 8 * (10 + 11 + 7));
    assert!(
        set.iter().any(|atomic| atomic == Atomic { form: Form::Fetch, datatype: Datatype::UINT64, op: AtomicOp::READ })
    );
}

#[test]
fn bounds_choose_at_compile_time() {
    fn injects<P: InjectCapable>() -> usize {
        P::INJECT_SIZE
    }
    fn sleeps<P: AutoProgress>() -> &'static str {
        P::NAME
    }
    fn polls<P: ManualProgress>() -> &'static str {
        P::NAME
    }
    fn adds<P: NativeAtomics>() -> bool {
        P::ATOMICS.fetch.contains(&AtomicOp::SUM)
    }
    assert!(injects::<Software>() > 0 && adds::<Shm>());
    assert_eq!((sleeps::<Udp>(), sleeps::<Sockets>(), polls::<Software>()), ("udp", "sockets", "soft"));
}
