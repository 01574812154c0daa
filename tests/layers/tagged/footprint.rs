//! Memory that an endpoint allocates.

use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::NonNull;

use loom_core::allocator_api2::alloc::{AllocError, Allocator, Global};
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_tagged::{Packet, TaggedAttr, TaggedEndpoint, WithPeer};

use super::world::nodes::{Buf, SMALL};

/// Number of allocated bytes.
#[derive(Default)]
struct Taken(Cell<usize>);

// SAFETY: every block comes from `Global`, and copies share it.
unsafe impl Allocator for &Taken {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.0.set(self.0.get() + layout.size());
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, ptr: NonNull<u8>, layout: Layout) {
        self.0.set(self.0.get() - layout.size());
        // SAFETY: `ptr` comes from `Global`, and the caller keeps the contract of `deallocate`.
        unsafe { Global.deallocate(ptr, layout) }
    }
}

#[test]
fn endpoint_takes_as_many_bytes_as_its_footprint_has() {
    type Layer<'a> = TaggedEndpoint<WithPeer<'static, Soft<'static>, Buf>, Vec<u8>, &'a Taken>;
    let network = Network::new(NetworkAttr { endpoints: 1, regions: 0, ..NetworkAttr::DEFAULT }).unwrap();
    let domain = Domain::open(&network.info()).unwrap();
    let queue = Cq::<_, Packet<Buf>>::open(&domain, CqAttr::new(128)).unwrap();
    for attr in [SMALL, TaggedAttr { links: 3, operations: 7, messages: 9, control: 5, sends: 2, masks: 1, ..SMALL }] {
        let taken = Taken::default();
        let layer = Layer::open_in(queue.clone(), attr, &taken).unwrap();
        assert_eq!(Layer::footprint(&attr), Ok(taken.0.get()));
        drop(layer);
        assert_eq!(taken.0.get(), 0);
    }
}
