//! Endpoints that failed to open, and which the provider then failed to close. The objects that
//! they are bound to stay open.

use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::CqAttr;
use loom_core::domain::Domain;
use loom_core::endpoint::Binding;
use loom_core::error::OpenError;
use loom_core::scope;
use loom_core::transport::EndpointError;
use loom_core::vocabulary::{Counted, Errno};

use super::scopes::{does_it, in_another_process};
use super::world::{Memory, World};
use super::{Queue, queue, region, vector};

#[test]
fn an_endpoint_that_opened_halfway_keeps_its_bound_objects_open() {
    for left_open in [false, true] {
        let world = World::strict();
        {
            let domain = Domain::open(&world.info()).unwrap();
            let av = vector(&domain);
            let cq: Queue<'_> = Queue::open(&domain, CqAttr { endpoints: 1, ..CqAttr::new(4) }).unwrap();
            let counter = Counter::open(&domain, CounterAttr::default()).unwrap();
            let open = || cq.endpoint(Binding::to(&av).counter(Counted::SEND, &counter)).map(drop);
            world.fail_to_open(EndpointError { errno: Errno::EIO, left_open });
            assert_eq!(open(), Err(Errno::EIO.into()));
            let again = if left_open { OpenError::TooManyEndpoints } else { Errno::EIO.into() };
            assert_eq!(open(), Err(again), "its place is taken as long as it is open");
            let usable = if left_open { Errno::ENODEV } else { Errno::ENOSYS };
            assert_eq!(counter.add(1), Err(usable), "the provider is not asked for a counter of what is left open");
            drop(region(&domain, Memory::of(world)));
        }
        let closed = usize::from(!left_open);
        assert_eq!((world.counters_closed(), world.vectors_closed()), (closed, closed), "left open: {left_open}");
        assert_eq!((world.queues_closed(), world.domains_closed()), (closed, closed), "left open: {left_open}");
        assert_eq!((world.closings(), world.memories_dropped()), (closed, closed), "peers reach the memory through it");
        assert_eq!(world.wrongs(), [""; 0]);
    }
}

/// Borrowed buffers can be in use as long as the endpoint is open, so without end.
#[test]
fn a_scope_with_an_endpoint_that_opened_halfway_ends_the_process() {
    if does_it() {
        let world = World::strict();
        scope(|s| {
            let domain = s.open(&world.info()).unwrap();
            let (av, cq) = (vector(&domain), queue(&domain));
            world.fail_to_open(EndpointError { errno: Errno::EIO, left_open: true });
            assert!(cq.endpoint(&av).is_err());
        });
        return;
    }
    let (success, said) =
        in_another_process("objects::regions::halfway::a_scope_with_an_endpoint_that_opened_halfway_ends_the_process");
    assert!(!success && said.contains("a provider failed to close an endpoint or queue"), "{said}");
}
