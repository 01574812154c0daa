//! Scalable endpoints.

use loom_core::av::{Av, AvAttr};
use loom_core::endpoint::ScalableEndpoint;
use loom_core::error::OpenError;
use loom_core::transport::scalable::Contexts;
use loom_core::vocabulary::Errno;

use super::{Scene, attributes};

#[test]
fn a_scalable_endpoint_has_the_contexts_that_it_was_opened_with() {
    let scene = Scene::new(attributes());
    let (queue, info) = (scene.queue(4), scene.script.info());
    let endpoint = ScalableEndpoint::open(&scene.vector(), &info, Contexts { tx: 1, rx: 2 }).unwrap();
    assert!(format!("{endpoint:?}").contains("Contexts { tx: 1, rx: 2 }"));
    let beyond = Err(OpenError::Errno(Errno::EINVAL));
    let (tx, rx) =
        (|index| queue.tx_context(&endpoint, index).map(drop), |index| queue.rx_context(&endpoint, index).map(drop));
    assert_eq!([tx(0), tx(1), tx(2)], [Ok(()), beyond, beyond]);
    assert_eq!([rx(0), rx(1), rx(2), rx(3)], [Ok(()), Ok(()), beyond, beyond]);
}

#[test]
fn a_vector_has_as_many_bits_for_contexts_as_an_address_has_room_for() {
    let scene = Scene::new(attributes());
    let open = |bits| Av::open(&scene.domain, AvAttr { rx_ctx_bits: bits, ..AvAttr::new(4) }).map(drop);
    let most = AvAttr::MAX_RX_CTX_BITS;
    assert_eq!([open(0), open(most), open(most + 1)], [Ok(()), Ok(()), Err(OpenError::Size)]);
}
