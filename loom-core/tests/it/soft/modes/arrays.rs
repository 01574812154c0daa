//! Arrays of ranges that the transport reads after the call (`FI_ASYNC_IOV`). Operations have one
//! buffer.

use loom_core::av::Av;
use loom_core::cq::{Cq, CqAttr};
use loom_core::deadline::Spins;
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::endpoint::{ReadOptions, RecvOptions, SendOptions};
use loom_core::error::PostError;
use loom_core::mr::Mr;
use loom_core::soft::{Network, NetworkAttr, RequiredModes};
use loom_core::vocabulary::{Access, Mode, Tag};

type Bytes = Box<[u8]>;

#[test]
fn an_operation_has_one_buffer() {
    let network = Network::new(NetworkAttr::default()).unwrap();
    let info = network.info_requiring(RequiredModes::ASYNC_IOV);
    let attributes = info.attributes();
    assert_eq!(attributes.mode, Mode::ASYNC_IOV);
    assert_eq!([attributes.tx.iov_limit, attributes.rx.iov_limit, attributes.tx.rma_iov_limit], [1; 3]);
    let domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, 4).unwrap();
    let refused = PostError::TooManyPieces { limit: 1 };
    let two = || [Bytes::from([1; 4]), Bytes::from([2; 4])];
    let mr = Mr::open(&domain, vec![0; 8], Access::REMOTE_READ | Access::REMOTE_WRITE).unwrap();
    let region = mr.remote();
    {
        let cq = Cq::<_, [Bytes; 2]>::open(&domain, CqAttr::new(16)).unwrap();
        let endpoint = cq.endpoint(&av).unwrap();
        let me = av.insert(&endpoint.address().unwrap()).unwrap();
        let part = region.part(0, 8).unwrap();
        for rejected in [
            endpoint.send_with(me, SendOptions::default(), two()),
            endpoint.recv_with(Source::Any, RecvOptions::default(), two()),
            endpoint.tagged_send_with(me, Tag(1), SendOptions::default(), two()),
            endpoint.tagged_recv_with(Source::Any, Tag(1), RecvOptions::default(), two()),
            endpoint.read_with(me, &[part], ReadOptions::default(), two()),
            endpoint.write_with(me, &[part], SendOptions::default(), two()),
        ] {
            let rejected = rejected.unwrap_err();
            assert_eq!((rejected.error, rejected.value), (refused, two()));
        }
    }
    let cq = Cq::<_, Bytes>::open(&domain, CqAttr::new(16)).unwrap();
    let endpoint = cq.endpoint(&av).unwrap();
    let me = av.insert(&endpoint.address().unwrap()).unwrap();
    let parts = [region.part(0, 4).unwrap(), region.part(4, 4).unwrap()];
    let rejected = endpoint.write_with(me, &parts, SendOptions::default(), [1; 8].into()).unwrap_err();
    assert_eq!(rejected.error, refused);
    let one = || Bytes::from([1; 4]);
    endpoint.recv_with(Source::Any, RecvOptions::default(), one()).map_err(PostError::from).unwrap();
    endpoint.send_with(me, SendOptions::default(), one()).map_err(PostError::from).unwrap();
    let written = endpoint.write_with(me, &parts[..1], SendOptions::default(), one()).map_err(PostError::from).unwrap();
    assert!(cq.wait(written, Spins(100)).unwrap().unwrap().result().is_ok());
}
