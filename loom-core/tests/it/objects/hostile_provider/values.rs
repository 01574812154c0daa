//! Operations on a value, and a provider's reports of them. Operand and result are in the queue's
//! table.

use std::cell::Cell;

use loom_core::atomic::FetchOp;
use loom_core::av::Av;
use loom_core::completion::Completion;
use loom_core::cq::CqError;
use loom_core::deadline::Spins;
use loom_core::endpoint::Endpoint;
use loom_core::endpoint::Granted;
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table::Peer;
use loom_core::mr::RemoteRegion;
use loom_core::transport::Event;
use loom_core::vocabulary::{
    Access, AddressFormat, Caps, CompletionFlags, EndpointAddr, Errno, MemoryKey, Mode, RemoteAddr,
};

use super::queues::Passed;
use super::{Queue, Scene, T, attributes};
use crate::scripted::Said;

const FLAGS: CompletionFlags = CompletionFlags::ATOMIC.union(CompletionFlags::READ);

struct Values {
    scene: Scene,
    queue: Queue,
    endpoint: Endpoint<'static, T, Vec<u8>>,
    peer: Peer,
    add: Granted<FetchOp<u64>>,
    _av: Av<'static, T>,
}

/// Opens an endpoint with contexts that are addresses, if `spaces`, or numbers.
fn values(spaces: bool) -> Values {
    let mut attributes = attributes();
    attributes.caps |= Caps::ATOMIC | Caps::READ | Caps::WRITE;
    attributes.mode.set(Mode::CONTEXT2, spaces);
    let scene = Scene::new(attributes);
    let queue = scene.queue(4);
    let av = scene.vector();
    let peer = av.insert(&EndpointAddr::new(AddressFormat::ADDR_STR, b"peer").unwrap()).unwrap();
    let endpoint = queue.endpoint(&av).unwrap();
    let add = scene.domain.query_atomic(FetchOp::<u64>::SUM).unwrap();
    Values { scene, queue, endpoint, peer, add, _av: av }
}

impl Values {
    fn post(&self) -> (OpKey, u64) {
        let remote = RemoteRegion {
            base: RemoteAddr(0),
            len: 64,
            key: MemoryKey(1),
            access: Access::REMOTE_READ | Access::REMOTE_WRITE,
        };
        let key = self.endpoint.fetch_value(self.peer, &remote, 8, self.add, 1).unwrap();
        (key, self.scene.last_context())
    }

    fn say(&self, event: Event) {
        self.scene.script.queues[0].borrow_mut().push_back(Said::Event(event));
    }
}

#[test]
fn a_value_comes_from_the_table_regardless_of_the_event() {
    for spaces in [false, true] {
        let values = values(spaces);
        for (flags, len) in [(FLAGS, 8), (CompletionFlags::empty(), 0), (CompletionFlags::RECV, usize::MAX)] {
            for waits in [true, false] {
                let (key, context) = values.post();
                values.say(Event::success(context, flags, len));
                let fetched = if waits {
                    values.queue.wait_value(key, Spins(1)).unwrap().unwrap()
                } else {
                    let Some(Completion::Value(fetched)) = values.queue.poll().unwrap() else { panic!("it is over") };
                    fetched
                };
                assert_eq!((fetched.key, fetched.value::<u64>()), (key, Ok(Some(0))), "the script has fetched nothing");
                assert_eq!(values.queue.wait_value(key, Spins(1)).unwrap_err(), CqError::UnknownKey);
                assert_eq!(values.queue.in_flight(), 0);
            }
        }
    }
}

#[test]
fn a_failure_has_no_value() {
    for spaces in [false, true] {
        let values = values(spaces);
        for errno in [Errno::EACCES, Errno::ECANCELED, Errno::from_raw(-5)] {
            let (key, context) = values.post();
            values.say(Event::failure(context, FLAGS, errno));
            let fetched = values.queue.wait_value(key, Spins(1)).unwrap().unwrap();
            assert_eq!(fetched.value::<u64>().unwrap_err().errno, errno);
            assert_eq!(values.queue.in_flight(), 0);
        }
    }
}

/// A number can arrive a second time, after the next operation in its slot.
#[test]
fn an_event_of_the_past_ends_no_other_operation() {
    let values = values(false);
    let (first, context) = values.post();
    values.say(Event::success(context, FLAGS, 8));
    values.queue.wait_value(first, Spins(1)).unwrap().unwrap().result().unwrap();
    let (second, _) = values.post();
    values.say(Event::success(context, FLAGS, 8));
    assert!(values.queue.wait_value(second, Spins(3)).unwrap().is_none(), "it is in flight");
    assert_eq!(values.queue.in_flight(), 1);
}

#[test]
fn waits_for_others_keep_a_value() {
    for spaces in [false, true] {
        let values = values(spaces);
        let [(first, one), (second, two)] = [values.post(), values.post()];
        values.say(Event::success(one, FLAGS, 8));
        values.say(Event::success(two, FLAGS, 8));
        assert!(values.queue.wait_value(second, Spins(3)).unwrap().unwrap().result().is_ok());
        assert_eq!(values.queue.wait(first, Spins(3)).unwrap_err(), CqError::UnknownKey, "it has no buffer");
        let Some(Completion::Value(kept)) = values.queue.poll().unwrap() else { panic!("it is kept") };
        assert_eq!(kept.key, first);
    }
}

#[test]
fn a_wait_for_a_value_looks_at_the_clock_now_and_then_while_the_queue_is_busy() {
    let values = values(false);
    let (key, _) = values.post();
    // Event without an operation.
    let stray = Said::Event(Event::success(u64::MAX, CompletionFlags::RECV, 0));
    values.scene.script.queues[0].borrow_mut().extend([stray; 1000]);
    let looks = Cell::new(0);
    assert!(values.queue.wait_value(key, Passed(&looks)).unwrap().is_none());
    let left = values.scene.script.queues[0].borrow().len();
    assert!((500..950).contains(&left) && looks.get() == 1, "{left} events are left after {} looks", looks.get());
}

#[test]
fn a_value_under_way_ends_with_its_endpoint() {
    for spaces in [false, true] {
        let values = values(spaces);
        let (key, _) = values.post();
        let Values { queue, endpoint, .. } = values;
        drop(endpoint);
        let fetched = queue.wait_value(key, Spins(1)).unwrap().unwrap();
        assert_eq!(fetched.result().unwrap_err().errno, Errno::ECANCELED);
        assert_eq!(queue.in_flight(), 0);
    }
}
