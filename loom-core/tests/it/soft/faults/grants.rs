//! Grants of an info with some capabilities removed, and the error of requesting them.

use loom_core::buffer::IoVecs;
use loom_core::completion::Completion;
use loom_core::endpoint::Source;
use loom_core::error::PostError;
use loom_core::mr::Mr;
use loom_core::soft::{Network, Plan, RequiredModes};
use loom_core::vocabulary::{Access, Caps, ImmediateData, Mode, MrMode, MsgOrder, Tag};

use crate::soft::faults::{ATTR, bytes, next, under};

#[test]
fn an_info_reports_reduced_attributes() {
    let network = Network::new(ATTR).unwrap();
    let whole = *network.info().attributes();
    assert!(!whole.domain.mr_mode.contains(MrMode::VIRT_ADDR), "memory is addressed by offsets in any case");
    let plan =
        Plan { without: Caps::RMA | Caps::TAGGED, unordered: true, narrow_data: true, one_range: true, ..Plan::new(1) };
    let info = network.info_with_faults(Plan { required: RequiredModes::CONTEXTS, ..plan });
    let less = info.attributes();
    let gone = Caps::RMA | Caps::READ | Caps::WRITE | Caps::REMOTE_READ | Caps::REMOTE_WRITE | Caps::TAGGED;
    for (less, whole) in [(less.caps, whole.caps), (less.tx.caps, whole.tx.caps), (less.rx.caps, whole.rx.caps)] {
        assert_eq!(less, whole.difference(gone));
    }
    assert_eq!((less.tx.msg_order, less.rx.msg_order), (MsgOrder::SAS, MsgOrder::SAS));
    assert_eq!(less.endpoint.max_order_waw_size, 0);
    assert_eq!((less.domain.cq_data_size, whole.domain.cq_data_size), (4, 8));
    assert_eq!((less.tx.iov_limit, less.tx.rma_iov_limit, less.rx.iov_limit), (1, 1, 1));
    assert!(less.mode.contains(Mode::CONTEXT));
    // The network's own info does not change.
    assert_eq!(*network.info().attributes(), whole);
}

#[test]
fn ungranted_operations_are_refused_with_the_buffer() {
    let caps = Caps::TAGGED | Caps::RMA | Caps::ATOMIC | Caps::DIRECTED_RECV | Caps::MULTI_RECV;
    let tagged_multi = Caps::TAGGED | Caps::TAGGED_MULTI_RECV;
    under(Plan { without: caps | tagged_multi, ..Plan::new(1) }, |world| {
        let buf = || bytes(1, 8);
        let refused = [
            (world.a.tagged_send(world.to_b, Tag(1), buf()), Caps::TAGGED),
            (world.a.tagged_recv(Source::Any, Tag(1), buf()), Caps::TAGGED),
            (world.a.recv(world.to_b, buf()), Caps::DIRECTED_RECV),
            (world.a.multi_recv(Source::Any, buf()), Caps::MULTI_RECV),
            (world.a.tagged_multi_recv(Source::Any, Tag(1), buf()), tagged_multi),
        ];
        for (post, caps) in refused {
            let rejected = post.unwrap_err();
            assert_eq!((rejected.error, rejected.value), (PostError::NotGranted(caps), buf()));
        }
        let remote = loom_core::mr::RemoteRegion {
            base: 0.into(),
            len: 8,
            key: 0.into(),
            access: Access::REMOTE_READ | Access::REMOTE_WRITE,
        };
        let rejected = world.a.write(world.to_b, &remote, 0, buf()).unwrap_err();
        assert_eq!(rejected.error, PostError::NotGranted(Caps::RMA | Caps::WRITE));
    });
}

#[test]
fn immediate_data_has_four_bytes_at_most() {
    under(Plan { narrow_data: true, ..Plan::new(1) }, |world| {
        let wide = ImmediateData(1 << 32);
        let rejected = world.a.send_data(world.to_b, wide, bytes(1, 8)).unwrap_err();
        assert_eq!((rejected.error, rejected.value), (PostError::DataWidth { limit: 4 }, bytes(1, 8)));
        assert_eq!(world.a.inject_data(world.to_b, wide, &[1]), Err(PostError::DataWidth { limit: 4 }));
        world.b.recv(Source::Any, bytes(0, 8)).unwrap();
        world.a.inject_data(world.to_b, ImmediateData(u32::MAX.into()), &[1]).unwrap();
        let data = next(world.b.cq(), 5).unwrap().result().unwrap().data;
        assert_eq!(data, Some(ImmediateData(u32::MAX.into())));
    });
}

#[test]
fn several_ranges_are_refused_where_there_is_one() {
    under(Plan { one_range: true, ..Plan::new(1) }, |world| {
        let region = Mr::open(&world.domain, bytes(0, 16), Access::REMOTE_WRITE).unwrap();
        let parts = [region.remote().part(0, 4).unwrap(), region.remote().part(4, 4).unwrap()];
        let rejected = world.a.write_with(world.to_b, &parts, Default::default(), bytes(1, 8)).unwrap_err();
        assert_eq!((rejected.error, rejected.value), (PostError::TooManyPieces { limit: 1 }, bytes(1, 8)));
        const { assert!(IoVecs::MOST > 1) };
        assert_eq!(world.domain.info().attributes().tx.iov_limit, 1);
    });
}

#[test]
fn a_source_that_is_not_granted_is_not_reported() {
    under(Plan { without: Caps::SOURCE, ..Plan::new(1) }, |world| {
        let region = Mr::open(&world.domain, bytes(0, 8), Access::REMOTE_WRITE).unwrap();
        world.a.recv(Source::Any, bytes(0, 8)).unwrap();
        world.b.inject(world.to_a, &[1]).unwrap();
        assert_eq!(next(world.a.cq(), 5).unwrap().result().unwrap().source, None);
        world.b.inject_write_data(world.to_a, &region.remote(), 0, ImmediateData(3), &[1]).unwrap();
        let Some(Completion::Remote(event)) = world.a.cq().poll().unwrap() else { panic!("a peer's event") };
        assert_eq!((event.data(), event.source()), (Some(ImmediateData(3)), None));
    });
}
