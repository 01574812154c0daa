//! Check after a story: all resources that the network lends to endpoints are free again.

use loom_core::av::Av;
use loom_core::completion::Completion;
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::error::PostError;
use loom_core::soft::Soft;

use super::{ENDPOINTS, RX_DEPTH, TX_DEPTH};
use crate::memory::Memory;

/// Checks that every place takes its initial number of receives and messages, and that they arrive.
pub fn assert_as_new(domain: &Domain<'static, Soft<'static>>, av: &Av<'static, Soft<'static>>) {
    let cq = Cq::open(domain, CqAttr::new(2 * ENDPOINTS * RX_DEPTH)).expect("the sizes are small");
    let endpoints: [_; ENDPOINTS] = core::array::from_fn(|_| cq.endpoint(av).expect("there is a place for each"));
    let post = |at: usize| endpoints[at].recv(Source::Any, Memory::new(&[0xee])).map_err(PostError::from);
    for (at, endpoint) in endpoints.iter().enumerate() {
        for _ in 0..RX_DEPTH {
            post(at).expect("nobody has posted before");
        }
        assert_eq!(post(at), Err(PostError::Again));
        let peer = av.insert(&endpoint.address().expect("it is open")).expect("an address of this network");
        let send = |number| endpoints[(at + 1) % ENDPOINTS].inject(peer, &[number]);
        (0..TX_DEPTH).for_each(|number| send(number as u8).expect("nobody has sent before"));
        assert_eq!(send(0), Err(PostError::Again));
    }
    let mut arrived = [0; TX_DEPTH];
    while let Some(completion) = cq.poll().expect("the queue works") {
        let Completion::Op(done) = completion else { panic!("of receives only, not {completion:?}") };
        let (buf, result) = done.into_parts();
        assert_eq!(result.map(|transfer| transfer.len), Ok(1));
        arrived[usize::from(buf.bytes()[0])] += 1;
    }
    assert_eq!(arrived, [ENDPOINTS; TX_DEPTH]);
}
