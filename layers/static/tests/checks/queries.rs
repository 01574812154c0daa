use loom_core::atomic::FetchOp;
use loom_core::collective::ReduceOp;
use loom_core::endpoint::{Binding, Endpoint};
use loom_core::error::{OpenError, PostError};
use loom_core::soft::{Network, NetworkAttr, Plan, Soft};
use loom_core::vocabulary::{EndpointAttributes, EndpointOption, EndpointType, TxAttributes};
use loom_core::{Access, Av, Caps, Completion, Cq, Domain, Forever, Hints, Info, Mr, Peer, Source, Tag};
use loom_static::OnlyEndpoint;
use loom_static::protocol::{
    Atomics, Completes, Inject, MsgRecv, MsgSend, Receiver, RmaRead, RmaWrite, TaggedInject, TaggedRecv,
};
use loom_static::query::{
    AtomicOps, Capable, CollectiveOps, Dgram, Injects, Messages, Msg, MultiRecvs, Query, Rdm, Reads, Tagged,
    TaggedMultiRecvs, Writes,
};

type All = (Rdm, Messages, Tagged, Reads, Writes, AtomicOps, MultiRecvs, Injects<16>);

fn network() -> Network<'static> {
    Network::new(NetworkAttr::default()).unwrap()
}

fn info<Q: Query>() -> Info<Soft<'static>> {
    Q::ranked(network().query(&Q::HINTS)).first().expect("a network has all of that")
}

type Ends<Q> = [OnlyEndpoint<'static, Soft<'static>, Vec<u8>, Q>; 2];

fn ends<Q: Query<Kind = Rdm>>() -> (Domain<'static, Soft<'static>>, Ends<Q>, Peer) {
    let domain = Domain::open(&info::<Q>()).unwrap();
    let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, 16).unwrap());
    let bind = || Binding::to(&av).option(EndpointOption::MIN_MULTI_RECV, 8);
    let ends = [(); 2].map(|()| Q::endpoint(&cq, bind()).unwrap());
    let to_b = ends[0].whole().av().insert(&ends[1].whole().address().unwrap()).unwrap();
    (domain, ends, to_b)
}

const MESSAGES: Caps = Caps::MSG.union(Caps::SEND).union(Caps::RECV);
const _: () = {
    const fn same(a: Caps, b: Caps) -> bool {
        a.bits() == b.bits()
    }
    assert!(same(<(Rdm, Messages)>::CAPS, MESSAGES));
    assert!(same(<(Messages, Rdm, Messages)>::CAPS, MESSAGES));
    assert!(same(<(Rdm, (Tagged, Messages))>::CAPS, <((Tagged, Rdm), Messages)>::CAPS));
    assert!(same(Writes::CAPS, Caps::RMA.union(Caps::WRITE).union(Caps::REMOTE_WRITE)));
    assert!(!<(Writes, Messages)>::CAPS.contains(Caps::READ));
    assert!(<(Writes, Messages, AtomicOps)>::CAPS.contains(Caps::READ));
    assert!(<(Rdm, Injects<8>)>::INJECT_SIZE == 8 && <(Injects<8>, Rdm, Injects<32>, Injects)>::INJECT_SIZE == 32);
    assert!(<(Rdm, Tagged)>::HINTS.tx_attr.inject_size == 0 && <(Tagged, Injects<9>)>::HINTS.tx_attr.inject_size == 9);
    assert!(<(Tagged, Messages)>::ENDPOINT_TYPE.as_raw() == EndpointType::UNSPEC.as_raw());
    assert!(<(Tagged, (Messages, Dgram), Dgram)>::ENDPOINT_TYPE.as_raw() == EndpointType::DGRAM.as_raw());
    assert!(<(Rdm, Capable<{ Caps::SOURCE.bits() }>)>::CAPS.contains(Caps::SOURCE));
    assert!(<(Rdm, Tagged, TaggedMultiRecvs)>::CAPS.contains(Caps::TAGGED_MULTI_RECV));
    assert!(!<(Rdm, Tagged, MultiRecvs)>::CAPS.contains(Caps::TAGGED_MULTI_RECV));
    assert!(<(Msg, Messages)>::HINTS.endpoint_attr.kind.as_raw() == EndpointType::MSG.as_raw());
};

const _: () = {
    type Plain = Endpoint<'static, Soft<'static>, Vec<u8>>;
    assert!(size_of::<OnlyEndpoint<'static, Soft<'static>, Vec<u8>, All>>() == size_of::<Plain>());
    assert!(align_of::<OnlyEndpoint<'static, Soft<'static>, Vec<u8>, (Rdm, Tagged)>>() == align_of::<Plain>());
};

#[test]
fn hints_are_exactly_those_of_the_query() {
    fn text(hints: &Hints<'_>) -> String {
        format!("{hints:?}")
    }
    assert_eq!(text(&Hints::UNSPEC), text(&Hints::default()));
    let expected = Hints {
        caps: All::CAPS,
        endpoint_attr: EndpointAttributes::of(EndpointType::RDM),
        tx_attr: TxAttributes { inject_size: 16, ..TxAttributes::default() },
        ..Hints::default()
    };
    assert_eq!(text(&All::HINTS), text(&expected));
    let shm = Hints { provider: Some("shm"), ..All::HINTS };
    assert_eq!((shm.provider, shm.caps), (Some("shm"), All::CAPS));
}

#[test]
fn infos_are_ranked_as_they_come_or_by_a_key_and_those_that_lack_something_are_left_out() {
    type Wanted = (Rdm, Tagged, Injects<64>);

    let infos = || {
        [256, 16, 1024, 1024, 128].into_iter().enumerate().map(|(number, eager_size)| {
            let endpoints = 2 + u16::try_from(number).unwrap();
            Network::new(NetworkAttr { eager_size, endpoints, ..NetworkAttr::DEFAULT }).unwrap().info()
        })
    };
    let of = |info: &Info<Soft<'_>>| (info.attributes().tx.inject_size, info.attributes().domain.ep_cnt);
    let ranked: Vec<_> = Wanted::ranked(infos()).map(|info| of(&info)).collect();
    assert_eq!(ranked, [(256, 2), (1024, 4), (1024, 5), (128, 6)]);
    let first = Wanted::ranked(infos()).first().unwrap();
    assert_eq!(of(&first), (256, 2));
    let second = Wanted::ranked(infos()).first_where(|info| info.attributes().domain.ep_cnt > 2).unwrap();
    assert_eq!(of(&second), (1024, 4));
    let greatest = Wanted::ranked(infos()).greatest(|info| info.attributes().tx.inject_size).unwrap();
    assert_eq!(of(&greatest), (1024, 4), "the better of two that are as good by the key");
    let least = Wanted::ranked(infos()).greatest(|info| core::cmp::Reverse(info.attributes().tx.inject_size));
    assert_eq!(of(&least.unwrap()), (128, 6));
    assert!(Wanted::ranked(infos()).first_where(|_| false).is_none());
    assert!(<(Wanted, Injects<2000>)>::ranked(infos()).first().is_none());
    assert!(<(Messages, Dgram)>::ranked(infos()).greatest(|_| 0).is_none());
    assert!(Wanted::ranked(None::<Info<Soft<'_>>>).first().is_none());
}

#[test]
fn a_check_reports_unmet_requirements() {
    let info = info::<All>();
    assert_eq!(All::check(&info), Ok(()));
    assert_eq!(<(Tagged, Messages)>::check(&info), Ok(()), "of any type");
    assert_eq!(<(Dgram, Messages)>::check(&info), Err(OpenError::EndpointType(EndpointType::RDM)));
    let limit = info.attributes().tx.inject_size;
    assert_eq!(<(Rdm, Injects<{ usize::MAX }>)>::check(&info), Err(OpenError::InjectSize { limit }));
    type Fenced = (Rdm, Capable<{ Caps::FENCE.union(Caps::SOURCE).bits() }>);
    assert_eq!(Fenced::check(&info), Err(OpenError::NotGranted(Caps::FENCE)));
    assert!(OpenError::InjectSize { limit: 64 }.to_string().contains("64 bytes"));

    let strict = Network::new(NetworkAttr { strict: true, ..NetworkAttr::DEFAULT }).unwrap();
    let info = strict.query(&<(Rdm, Messages, Writes)>::HINTS).unwrap();
    assert_eq!(<(Writes, Rdm)>::check(&info), Ok(()));
    let Err(OpenError::NotGranted(missing)) = <(Rdm, AtomicOps)>::check(&info) else { panic!("not granted") };
    assert!(missing.contains(Caps::ATOMIC | Caps::READ) && !missing.contains(Caps::WRITE), "{missing}");
}

#[test]
fn an_endpoint_is_opened_only_if_everything_is_granted() {
    let network = network();
    let plan = Plan { without: Caps::TAGGED, ..Plan::new(1) };
    let info = network.info_with_faults(plan);
    let domain = Domain::open(&info).unwrap();
    let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 16).unwrap());
    assert_eq!(
        <(Rdm, Tagged)>::endpoint(&cq, &av).map(drop),
        Err(OpenError::NotGranted(Caps::TAGGED)),
        "and the endpoint is closed"
    );
    assert_eq!(<(Dgram, Messages)>::endpoint(&cq, &av).map(drop), Err(OpenError::EndpointType(EndpointType::RDM)));
    let endpoint = cq.endpoint(&av).unwrap();
    assert_eq!(<(Rdm, Tagged)>::only(&endpoint).map(drop), Err(OpenError::NotGranted(Caps::TAGGED)));
    assert_eq!(<(Dgram, Messages)>::only(&endpoint).map(drop), Err(OpenError::EndpointType(EndpointType::RDM)));
    let limit = endpoint.inject_size();
    let more = <Injects<{ usize::MAX }>>::only(&endpoint).map(drop);
    assert_eq!(more, Err(OpenError::InjectSize { limit }));
    let messages = Messages::only(&endpoint).unwrap();
    let itself = av.insert(&messages.whole().address().unwrap()).unwrap();
    let refused = messages.whole().tagged_send(itself, Tag(1), vec![0; 8]).unwrap_err();
    assert_eq!((refused.error, refused.value), (PostError::NotGranted(Caps::TAGGED), vec![0; 8]));

    let writes = Messages::endpoint(&cq, Binding::to(&av).remote_writes(1));
    assert_eq!(writes.map(drop), Err(OpenError::NotGranted(Caps::RECV)));
}

#[test]
fn refused_query_opens_no_endpoint() {
    let network = Network::new(NetworkAttr { endpoints: 1, ..NetworkAttr::DEFAULT }).unwrap();
    let domain = Domain::open(&network.info_with_faults(Plan { without: Caps::TAGGED, ..Plan::new(1) })).unwrap();
    let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 16).unwrap());
    let _only_endpoint = Messages::endpoint(&cq, &av).unwrap();
    assert_eq!(Tagged::endpoint(&cq, &av).map(drop), Err(OpenError::NotGranted(Caps::TAGGED)));
    assert!(!matches!(Messages::endpoint(&cq, &av).map(drop), Ok(()) | Err(OpenError::NotGranted(_))));
}

#[test]
fn each_group_has_its_operations() {
    let (domain, [mut a, mut b], to_b) = ends::<All>();
    let cq = a.whole().cq().clone();
    let received = cq.post(vec![0; 5], Forever, |room| b.recv(Source::Any, room)).unwrap();
    let sent = cq.post(b"hello".to_vec(), Forever, |message| a.send(to_b, message)).unwrap();
    assert_eq!(cq.finish(received, Forever).unwrap().into_buf(), b"hello");
    assert_eq!(cq.finish(sent, Forever).unwrap().into_buf(), b"hello");

    let received = cq.post(vec![0; 6], Forever, |room| b.tagged_recv(Source::Any, Tag(3).into(), room)).unwrap();
    cq.retry(Forever, || a.tagged_inject(to_b, Tag(3), b"tagged")).unwrap();
    assert_eq!(cq.finish(received, Forever).unwrap().into_buf(), b"tagged");

    let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
    let region = Mr::open(&domain, vec![0; 128], access).unwrap();
    let offset = region.window().as_ptr().align_offset(8) as u64;
    let word = 40_u64.to_ne_bytes().to_vec();
    let written = cq.post(word, Forever, |word| a.write(to_b, &region.remote(), offset, word)).unwrap();
    cq.finish(written, Forever).unwrap().result().unwrap();
    let add = domain.query_atomic(FetchOp::<u64>::SUM).unwrap();
    let fetched = cq.retry(Forever, || a.fetch_value(to_b, &region.remote(), offset, add, 2)).unwrap();
    assert_eq!(cq.wait_value(fetched, Forever).unwrap().unwrap().value::<u64>().unwrap(), Some(40));
    let read = cq.post(vec![0; 8], Forever, |room| a.read(to_b, &region.remote(), offset, room)).unwrap();
    assert_eq!(cq.finish(read, Forever).unwrap().into_buf(), 42_u64.to_ne_bytes());

    let many = cq.post(vec![0; 24], Forever, |room| b.whole().multi_recv(Source::Any, room)).unwrap();
    cq.retry(Forever, || a.inject(to_b, b"a message of 20 byte")).unwrap();
    let piece = loop {
        match cq.poll().unwrap() {
            Some(Completion::Piece(piece)) => break piece,
            Some(other) => panic!("a message, not {other:?}"),
            None => {}
        }
    };
    assert_eq!(piece.bytes(), b"a message of 20 byte");
    drop(piece);
    assert_eq!(cq.finish(many, Forever).unwrap().into_buf().len(), 24);
}

#[test]
fn endpoint_of_a_query_drives_its_queue_and_has_its_limits() {
    let (_domain, [mut a, mut b], to_b) = ends::<All>();
    let limit = a.whole().inject_size();
    assert_eq!((a.inject_size(to_b), a.tagged_inject_size(to_b)), (limit, limit));
    let longest = vec![7; limit];
    let received = b.recv(Source::Any, vec![0; limit]).unwrap();
    let cq = a.whole().cq().clone();
    cq.retry(Forever, || a.inject(to_b, &longest)).unwrap();
    assert_eq!((b.progress(), b.progress()), (Ok(true), Ok(false)));
    assert_eq!(b.wait(received, Forever).unwrap().unwrap().buf, longest);
}

#[test]
fn members_of_a_query_act_together() {
    let (_domain, ends, _) = ends::<(Rdm, CollectiveOps)>();
    let (av, cq) = (ends[0].whole().av(), ends[0].whole().cq());
    let mut set = av.set_in(2, loom_core::allocator_api2::alloc::Global).unwrap();
    for end in &ends {
        set.insert(av.insert(&end.whole().address().unwrap()).unwrap()).unwrap();
    }
    let groups = ends.each_ref().map(|end| end.whole().join_collective(&set).unwrap());
    let keys = groups
        .each_ref()
        .map(|group| cq.retry(Forever, || group.all_reduce_value(ReduceOp::SUM, group.rank() as u64 + 1)).unwrap());
    for key in keys {
        assert_eq!(cq.wait_value(key, Forever).unwrap().unwrap().value::<u64>().unwrap(), Some(3));
    }
}

#[test]
fn generic_code_runs_over_the_requirements_of_a_query() {
    fn greet<S: MsgSend<Buf = Vec<u8>>, R: MsgRecv<Buf = Vec<u8>>>(
        from: &mut S,
        to: S::To,
        receiver: &mut R,
    ) -> Vec<u8> {
        let key = receiver.post(vec![0; 2], Forever, |receiver, room| receiver.recv(R::ANY, room)).ok().unwrap();
        let sent = from.post(b"hi".to_vec(), Forever, |from, message| from.send(to, message)).ok().unwrap();
        from.wait(sent, Forever).unwrap().unwrap().result.unwrap();
        receiver.wait(key, Forever).unwrap().unwrap().buf
    }
    let (_domain, [mut a, mut b], to_b) = ends::<(Rdm, Messages)>();
    assert_eq!(greet(&mut a, to_b, &mut b), b"hi");

    fn sends<P: MsgSend>() {}
    sends::<OnlyEndpoint<'_, Soft<'_>, Vec<u8>, All>>();
    let source = <OnlyEndpoint<'_, Soft<'_>, Vec<u8>, All> as Receiver>::ANY;
    assert_eq!(source, Source::Any);
}
