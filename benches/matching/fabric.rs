//! Whole transfers with many posted receives: over the software transport, which matches by the
//! engine, and over libfabric's providers, which traverse a list.
//!
//! Over libfabric, loom posts and polls. This adds a few hundredths to the time of the same calls
//! in C (the set `over_c` of `benches/src`).

use loom_core::av::Av;
use loom_core::completion::Completion;
use loom_core::cq::{Cq, CqAttr};
use loom_core::endpoint::Source;
use loom_core::info::{Hints, Info};
use loom_core::scope;
use loom_core::soft::{Network, NetworkAttr};
use loom_core::transport::Transport;
use loom_core::vocabulary::{Caps, RxAttributes, Tag};
use loom_fabric::ofi::{Local, Ofi};
use support::library_version;

use crate::cases::Random;
use crate::measure::{median, metric, per_operation, ratio};

/// Rounds of the median.
const ROUNDS: usize = 15;

const DEPTHS: [u32; 4] = [1, 64, 1024, 16_384];

/// Slots of the queues.
const PLACES: usize = 17_000;

/// Passes transfers of eight bytes, with this number of posted receives, to `measure`. Each message
/// has the tag of a random receive, which is posted again.
fn on_transport<T: Transport>(
    info: &Info<T>,
    depth: u32,
    measure: impl FnOnce(&mut dyn FnMut(u32)),
) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("{} with {depth} receives: {error}", info.provider());
    let mut buffers = vec![[0u8; 8]; depth as usize];
    scope(|s| {
        let domain = s.open(info).map_err(|error| failed(&error))?;
        let av = Av::open(&domain, 4).map_err(|error| failed(&error))?;
        let cq = Cq::open(&domain, CqAttr::new(PLACES)).map_err(|error| failed(&error))?;
        let a = cq.endpoint(&av).map_err(|error| failed(&error))?;
        let b = cq.endpoint(&av).map_err(|error| failed(&error))?;
        let address = b.address().map_err(|error| failed(&error))?;
        let to_b = av.insert(&address).map_err(|error| failed(&error))?;
        for (tag, buffer) in (0..).zip(&mut buffers) {
            b.tagged_recv(Source::Any, Tag(tag), &mut buffer[..]).map_err(|rejected| failed(&rejected.error))?;
        }
        let mut random = Random::new();
        let mut transfer = || {
            let tag = u64::from(random.below(depth));
            while let Err(error) = a.tagged_inject(to_b, Tag(tag), &tag.to_le_bytes()) {
                assert!(error.is_transient(), "{error}");
                cq.progress().expect("the queue works");
            }
            let buffer = loop {
                if let Some(Completion::Op(done)) = cq.poll().expect("the queue works") {
                    done.result().expect("it is received");
                    break done.into_buf();
                }
            };
            assert_eq!(buffer, tag.to_le_bytes(), "what is measured moves bytes to where they belong");
            b.tagged_recv(Source::Any, Tag(tag), buffer).expect("there is a place again");
        };
        let mut run = |count| (0..count).for_each(|_| transfer());
        // Opens connections, does the first allocations, and shuffles the receives.
        run(200);
        measure(&mut run);
        Ok(())
    })
}

fn info(provider: &str, node: Option<&str>, depth: u32) -> Result<Info<Ofi<Local>>, String> {
    let rx_attr = RxAttributes { size: depth as usize, ..RxAttributes::default() };
    let hints = Hints {
        caps: Caps::TAGGED,
        provider: Some(provider),
        node,
        listen: node.is_some(),
        rx_attr,
        ..Hints::default()
    };
    let mut infos = Ofi::<Local>::query(&hints).map_err(|error| format!("{provider}: {error}"))?;
    infos.next().ok_or_else(|| format!("libfabric offers no {provider} with {depth} receives"))
}

/// Measures one provider at each depth, beside the software transport.
fn provider(name: &str, short: &str, node: Option<&str>, most: u32) -> Result<(), String> {
    for depth in DEPTHS {
        let attr = NetworkAttr { endpoints: 2, rx_depth: depth, ..NetworkAttr::DEFAULT };
        let network = Network::new(attr).map_err(|error| format!("{error:#}"))?;
        let info = info(name, node, depth)?;
        let count = (most * 64 / depth).clamp(20, most);
        let (mut of_soft, mut of_provider) = (vec![], vec![]);
        let mut result = Ok(());
        on_transport(&network.info(), depth, |soft| {
            result = on_transport(&info, depth, |provider| {
                for _ in 0..ROUNDS {
                    of_soft.push(per_operation(most, &mut *soft));
                    of_provider.push(per_operation(count, &mut *provider));
                }
            });
        })?;
        result?;
        println!("{name}, {depth} posted: {:.0} ns; soft {:.0} ns", median(&of_provider), median(&of_soft));
        metric(&format!("tag_match.{short}.{depth}"), median(&of_provider), "ns");
        metric(&format!("tag_match.{short}_over_soft.{depth}"), ratio(&of_provider, &of_soft), "ratio");
    }
    Ok(())
}

/// Raises the providers' default limit of receives.
///
/// # Safety
/// See [`set_var`](std::env::set_var).
pub(crate) unsafe fn allow_many_receives() {
    for name in ["FI_SHM_RX_SIZE", "FI_OFI_RXM_RX_SIZE", "FI_OFI_RXM_MSG_RX_SIZE"] {
        // SAFETY: the caller's promise.
        unsafe { std::env::set_var(name, "16384") };
    }
}

pub(crate) fn compare() -> Result<(), String> {
    println!("a tagged message of 8 bytes and its receive, in random order; libfabric {}", library_version());
    provider("shm", "c_shm", None, 5_000)?;
    provider("tcp;ofi_rxm", "c_tcp_rxm", Some("127.0.0.1"), 500)
}
