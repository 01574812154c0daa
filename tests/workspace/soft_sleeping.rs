//! Sleeps on queues of the software transport, measured through the system: the result of `poll`
//! for a descriptor, no processor time of a sleeper, and no allocation.
//! `loom-core/tests/it/soft/sleeping.rs` has all events that wake a sleeper.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use loom_core::WaitObj;
use loom_core::av::Av;
use loom_core::completion::Completion;
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::{Endpoint, Source};
use loom_core::soft::{Network, NetworkAttr, Soft};

type S = Soft<'static>;
type Bytes = Box<[u8]>;

/// Limit of one sleep.
const LIMIT: Duration = Duration::from_secs(10);

thread_local! {
    /// Number of this thread's allocations and frees while it counts.
    static TAKEN: Cell<Option<u64>> = const { Cell::new(None) };
}

struct Counting;

fn count() {
    // The thread may be ending.
    let _ = TAKEN.try_with(|taken| taken.set(taken.get().map(|taken| taken + 1)));
}

// SAFETY: the system's allocator, called with the same arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Node {
    endpoint: Endpoint<'static, S, Bytes>,
    cq: Cq<'static, S, Bytes>,
    av: Av<'static, S>,
}

impl Node {
    fn open(network: &Network<'static>) -> Self {
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 4).unwrap();
        let cq = Cq::open(&domain, CqAttr { wait: WaitObj::FD, ..CqAttr::new(8) }).unwrap();
        let endpoint = cq.endpoint(&av).unwrap();
        Node { endpoint, cq, av }
    }

    /// Polls as a program that sleeps on descriptors: until the queue is empty and `may_sleep`
    /// permits it, and then sleeps. Returns the number of sleeps, too.
    fn next_by_descriptor(&self) -> (Completion<'static, Bytes>, u32) {
        let mut sleeps = 0;
        loop {
            if let Some(completion) = self.cq.poll().unwrap() {
                return (completion, sleeps);
            }
            if self.cq.may_sleep().unwrap() {
                sleeps += 1;
                assert!(is_readable(self.cq.wait_fd().unwrap(), LIMIT), "a wake-up was lost");
            }
        }
    }

    fn next_by_call(&self) -> (Completion<'static, Bytes>, u32) {
        let begin = Instant::now();
        let completion = self.cq.poll_until(begin + LIMIT).unwrap();
        assert!(begin.elapsed() < LIMIT / 2, "a wake-up was lost");
        (completion.expect("no signaller wakes it"), 0)
    }
}

fn is_readable(fd: i32, time: Duration) -> bool {
    let mut fds = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, and the descriptor is open as long as the queue is.
    let ready = unsafe { libc::poll(&raw mut fds, 1, i32::try_from(time.as_millis()).unwrap()) };
    assert!(ready >= 0 && fds.revents & libc::POLLNVAL == 0, "poll takes the descriptor");
    ready == 1
}

type Next = fn(&Node) -> (Completion<'static, Bytes>, u32);

fn two_threads_answer_each_other(attr: NetworkAttr, next: Next) {
    const ROUNDS: u32 = 3000;
    const WARM: u32 = 100;
    let network = &Network::new(attr).unwrap();
    let (to_left, from_right) = channel();
    let (to_right, from_left) = channel();
    let side = |first: bool, tell: std::sync::mpsc::Sender<_>, hear: std::sync::mpsc::Receiver<_>| {
        let node = Node::open(network);
        tell.send(node.endpoint.address().unwrap()).unwrap();
        let to = node.av.insert(&hear.recv().unwrap()).unwrap();
        let mut buf: Option<Bytes> = Some(vec![0; 8].into());
        let (mut random, mut slept) = (0x9e37_79b9_7f4a_7c15_u64, 0);
        for round in 0..ROUNDS {
            if round == WARM {
                TAKEN.set(Some(0));
            }
            node.endpoint.recv(Source::Any, buf.take().unwrap()).unwrap();
            let bytes = u64::from(round).to_le_bytes();
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1 | u64::from(first) << 1);
            let answer = || {
                (0..random >> 50 >> (random >> 33 & 15)).for_each(|_| std::hint::spin_loop());
                node.endpoint.inject(to, &bytes).unwrap();
            };
            if first {
                answer();
            }
            let (Completion::Op(done), sleeps) = next(&node) else { panic!("an operation") };
            slept += sleeps;
            let received = done.into_buf();
            assert_eq!(received[..], bytes);
            buf = Some(received);
            if !first {
                answer();
            }
        }
        assert_eq!(TAKEN.take(), Some(0), "memory was taken");
        slept
    };
    thread::scope(|scope| {
        let left = scope.spawn(move || side(true, to_right, from_right));
        let right = scope.spawn(move || side(false, to_left, from_left));
        let slept = left.join().unwrap() + right.join().unwrap();
        println!("{slept} sleeps on descriptors in {ROUNDS} rounds");
    });
}

const ATTR: NetworkAttr = NetworkAttr { endpoints: 2, tx_depth: 16, rx_depth: 16, regions: 0, ..NetworkAttr::DEFAULT };

#[test]
fn threads_sleep_on_descriptors_and_take_no_memory() {
    two_threads_answer_each_other(ATTR, Node::next_by_descriptor);
    two_threads_answer_each_other(NetworkAttr { lanes: 0, ..ATTR }, Node::next_by_descriptor);
}

#[test]
fn threads_sleep_in_calls_and_take_no_memory() {
    two_threads_answer_each_other(ATTR, Node::next_by_call);
    two_threads_answer_each_other(NetworkAttr { lanes: 0, ..ATTR }, Node::next_by_call);
}

/// Checks, as a control, that a box is counted.
#[test]
fn memory_that_is_taken_is_counted() {
    TAKEN.set(Some(0));
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(TAKEN.take(), Some(2));
}

#[test]
fn descriptor_is_readable_when_something_has_come() {
    let network = Network::new(ATTR).unwrap();
    let (sleeper, peer) = (Node::open(&network), Node::open(&network));
    let to = peer.av.insert(&sleeper.endpoint.address().unwrap()).unwrap();
    let fd = sleeper.cq.wait_fd().unwrap();
    for _ in 0..3 {
        assert!(sleeper.cq.may_sleep().unwrap());
        assert!(!is_readable(fd, Duration::ZERO), "nothing has come");
        peer.endpoint.inject(to, &[1; 8]).unwrap();
        assert!(is_readable(fd, Duration::ZERO));
        assert!(sleeper.cq.may_sleep().unwrap(), "the message was taken in, and nobody receives it");
        assert!(!is_readable(fd, Duration::ZERO));
        // Several signals are one.
        for _ in 0..3 {
            peer.endpoint.inject(to, &[1; 8]).unwrap();
        }
        assert!(is_readable(fd, Duration::ZERO));
        for _ in 0..4 {
            sleeper.endpoint.recv(Source::Any, vec![0; 8].into()).unwrap();
            assert!(!sleeper.cq.may_sleep().unwrap(), "a receive has ended");
            assert!(sleeper.cq.poll().unwrap().is_some());
        }
        let signaller = sleeper.cq.signaller().unwrap();
        for _ in 0..3 {
            signaller.signal().unwrap();
        }
        assert!(is_readable(fd, Duration::ZERO), "also when no thread has asked");
        assert!(!sleeper.cq.may_sleep().unwrap(), "it tells of the signal");
        while !sleeper.cq.may_sleep().unwrap() {}
        assert!(!is_readable(fd, Duration::ZERO));
    }
}

#[cfg(target_os = "linux")]
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the place is valid for a write.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

#[cfg(target_os = "linux")]
#[test]
fn sleeper_uses_no_processor() {
    let network = Network::new(ATTR).unwrap();
    let node = Node::open(&network);
    let peer = Node::open(&network);
    let to = node.av.insert(&peer.endpoint.address().unwrap()).unwrap();
    // Operations in flight do not keep it awake: a long message without a receive, and a receive.
    node.endpoint.send(to, vec![1; 5000].into()).unwrap();
    node.endpoint.recv(Source::Any, vec![0; 8].into()).unwrap();
    let (begin, before, time) = (Instant::now(), processor_time(), Duration::from_millis(300));
    assert!(node.cq.poll_for(time).unwrap().is_none());
    let (elapsed, used) = (begin.elapsed(), processor_time() - before);
    assert!(elapsed >= time, "{elapsed:?}");
    assert!(used < time / 10, "{used:?} of {elapsed:?}");
}
