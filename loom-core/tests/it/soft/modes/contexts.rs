//! Memory for the transport in contexts (`FI_CONTEXT`, `FI_CONTEXT2`). The tests of
//! `tests/transports` run with it, too.

use loom_core::av::Av;
use loom_core::buffer::Lent;
use loom_core::completion::Completion;
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Spins;
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::error::PostError;
use loom_core::soft::{Network, NetworkAttr, RequiredModes, Soft};
use loom_core::transport::{Context, Messages};
use loom_core::vocabulary::{Errno, FabricAddr, Mode, Tag};

type Bytes = Box<[u8]>;

const BOTH: [(RequiredModes, Mode); 2] =
    [(RequiredModes::CONTEXTS, Mode::CONTEXT), (RequiredModes::LARGE_CONTEXTS, Mode::CONTEXT2)];

#[test]
fn transport_data_in_contexts_is_not_overwritten() {
    for (asks, mode) in BOTH {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let info = network.info_requiring(asks);
        let attributes = info.attributes();
        assert_eq!([attributes.mode, attributes.tx.mode, attributes.rx.mode], [mode; 3]);
        let domain = Domain::open(&info).unwrap();
        let av = Av::open(&domain, 4).unwrap();
        let cq = Cq::<_, Bytes>::open(&domain, CqAttr::new(16)).unwrap();
        let (a, b) = (cq.endpoint(&av).unwrap(), cq.endpoint(&av).unwrap());
        let to_b = av.insert(&b.address().unwrap()).unwrap();
        // Every kind of operation reuses slots. Some operations are cancelled.
        for round in 0..100_u8 {
            let len = if round % 2 == 0 { 10 } else { 10_000 };
            let cancelled = b.recv(Source::Any, vec![0; 8].into()).map_err(PostError::from).unwrap();
            let tagged = b.tagged_recv(Source::Any, Tag(1), vec![0; len].into()).map_err(PostError::from).unwrap();
            let sent = a.tagged_send(to_b, Tag(1), vec![round; len].into()).map_err(PostError::from).unwrap();
            b.cancel(cancelled).unwrap();
            let done = cq.wait(tagged, Spins(100)).unwrap().unwrap();
            assert_eq!(done.result().unwrap().len, len);
            assert_eq!(done.into_buf(), vec![round; len].into());
            assert!(cq.wait(sent, Spins(100)).unwrap().unwrap().result().is_ok());
            let cancelled = cq.wait(cancelled, Spins(100)).unwrap().unwrap();
            assert_eq!(cancelled.result().unwrap_err().errno, Errno::ECANCELED);
        }
        assert_eq!(cq.strays(), 0);
    }
}

/// Control of the test above and of those in `tests/transports`.
#[test]
fn a_context_that_is_written_to_meanwhile_is_noticed() {
    for (asks, words) in [(BOTH[0].0, 4), (BOTH[1].0, 8)] {
        for word in 0..words {
            let network = Network::new(NetworkAttr::default()).unwrap();
            let domain = Domain::open(&network.info_requiring(asks)).unwrap();
            let av = Av::open(&domain, 4).unwrap();
            let mut space = Box::new([0_u64; 8]);
            let space = &raw mut *space;
            let cq = Cq::<_, Bytes>::open(&domain, CqAttr::new(16)).unwrap();
            let endpoint = cq.endpoint(&av).unwrap();
            let me = av.insert(&endpoint.address().unwrap()).unwrap();
            let nothing = Lent::target(core::ptr::NonNull::dangling(), 0);
            // SAFETY: the endpoint is open, no bytes are lent, and the space stays.
            unsafe { Soft::recv(endpoint.raw(), FabricAddr::UNSPEC, &nothing, None, Context::space(space)) }.unwrap();
            // SAFETY: the test is the only user of the space now.
            unsafe { (*space)[word] ^= 1 };
            endpoint.inject(me, &[]).unwrap();
            let Some(Completion::Unclaimed(error)) = cq.poll().unwrap() else { panic!("no such context here") };
            assert_eq!(error.errno, Errno::EOTHER);
        }
    }
}
