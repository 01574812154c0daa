mod counters;
mod desk;
pub mod metadata;
#[cfg(all(test, loom_model))]
mod model;
mod slots;
mod submission;
mod thread;

use core::fmt;
use core::panic::AssertUnwindSafe;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::boxed::Box;
use std::panic::catch_unwind;
use std::string::String;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::thread::{JoinHandle, Thread};
use std::time::Instant;
use std::vec::Vec;

use allocator_api2::alloc::Allocator;
use loom_core::error::OpenError;
use loom_core::exposed::Window;
use loom_core::{Access, Buffer, Errno, Error, Rejected, Transport};

pub use self::counters::Counters;
use self::counters::Counts;
use self::desk::{Call, Desk};
use self::metadata::Metadata;
use self::slots::{Done, Slots, Work};
pub use self::submission::Submission;
use self::thread::Worker;
use crate::engine::{Engine, Wait};
use crate::event::{Ending, Outcome};
use crate::memory::MemoryKey;
use crate::peers::PeerKey;
use crate::plan::Plan;
use crate::remote::RemoteMemory;
use crate::request::Request;

const ENDED: Error = Error::Invalid("the agent has ended: spawn another one");
const OWN_THREAD: Error = Error::Invalid("the agent's own thread cannot wait for itself: wait on another thread");

/// Attributes of an agent.
///
/// ```
/// use core::time::Duration;
/// use loom_transfer::AgentAttr;
///
/// let eager = AgentAttr { pause: Duration::ZERO, ..AgentAttr::default() };
/// assert!(!eager.histogram);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentAttr {
    /// Maximum number of submissions with a result to come or to take.
    pub slots: usize,
    /// Time without work or a transfer in flight before pauses between polls.
    pub spin: Duration,
    /// Length of a pause, which a submission ends. Peers' operations may wait for it.
    pub pause: Duration,
    /// Records times ([`Agent::histogram`]).
    pub histogram: bool,
}

impl Default for AgentAttr {
    /// 256 slots, pauses of 50 µs after 1 ms, no histogram.
    fn default() -> Self {
        let (spin, pause) = (Duration::from_millis(1), Duration::from_micros(50));
        AgentAttr { slots: 256, spin, pause, histogram: false }
    }
}

/// Notification of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Bytes.
    pub bytes: Vec<u8>,
    /// Sender.
    pub peer: PeerKey,
    /// [`Notification::ending`](crate::Notification::ending).
    pub ending: Ending,
    /// [`Notification::late_writes`](crate::Notification::late_writes).
    pub late_writes: u64,
}

/// Peer that is ready or has failed.
pub type PeerChange = (PeerKey, Result<(), Error>);

struct Shared<P> {
    slots: Slots<P>,
    counts: Counts,
    opened: Instant,
    closing: AtomicBool,
    thread: OnceLock<Thread>,
}

impl<P> Shared<P> {
    fn time(&self, at: Instant) -> u64 {
        u64::try_from(at.saturating_duration_since(self.opened).as_nanos()).unwrap_or(u64::MAX)
    }

    fn now(&self) -> u64 {
        self.time(Instant::now())
    }

    fn unpark(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    fn is_own_thread(&self) -> bool {
        self.thread.get().is_some_and(|thread| thread.id() == std::thread::current().id())
    }

    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }
}

/// Ends the thread with the last handle.
struct Owner<P> {
    shared: Arc<Shared<P>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl<P> Drop for Owner<P> {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        self.shared.unpark();
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread.filter(|_| !self.shared.is_own_thread()) {
            let _ = thread.join();
        }
    }
}

/// Engine on its own thread, for any number of threads.
///
/// Submissions do not allocate, and fail with [`Error::Full`] beyond [`AgentAttr::slots`]. Other
/// calls block and allocate. All fail with [`Error::Invalid`] once the agent has ended.
///
/// The agent ends when its last handle is dropped, or when the queues of all rails have failed, and
/// with it all submissions. A panic of a plan ends its transfer alone.
///
/// ```
/// use loom_core::allocator_api2::alloc::Global;
/// use loom_core::{Access, Domain};
/// use loom_transfer::{Agent, AgentAttr, Block, Engine, EngineAttr, Request};
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let info = Network::new(NetworkAttr::default())?.info();
///
/// let agent = Agent::spawn(AgentAttr::default(), move || {
///     Engine::open_in(&[Domain::open(&info)?], EngineAttr::default(), Global)
/// })?;
/// let itself = agent.insert_peer(agent.address()?)?;
/// let source = agent.register(vec![7; 1 << 16], Access::empty())?;
/// let target = agent.register(vec![0; 1 << 16], Access::REMOTE_WRITE)?;
/// let remote = agent.remote(target)?;
///
/// # std::thread::scope(|scope| {
/// // In each of several threads:
/// #     for part in 0..4_u64 {
/// #         let agent = agent.clone();
/// #         scope.spawn(move || {
/// let plan = Block { local: 0, remote: part << 14, len: 1 << 14 };
/// let submission = agent.submit(Request::write(itself, source, &remote, plan))?;
/// assert_eq!(submission.wait()?.result()?, 1 << 14);
/// #             Ok::<_, loom_core::Error>(())
/// #         });
/// #     }
/// # });
/// # let last = agent.with_window(target, |window| {
/// #     let mut byte = [0];
/// #     window.copy_to((1 << 16) - 1, &mut byte).map(|()| byte[0])
/// # })?;
/// # assert_eq!((last?, agent.counters().bytes), (7, 1 << 16));
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct Agent<P, M = Vec<u8>> {
    shared: Arc<Shared<P>>,
    calls: mpsc::Sender<Call<M>>,
    owner: Arc<Owner<P>>,
}

impl<P, M> Clone for Agent<P, M> {
    fn clone(&self) -> Self {
        Agent { shared: Arc::clone(&self.shared), calls: self.calls.clone(), owner: Arc::clone(&self.owner) }
    }
}

impl<P: Plan + Send + 'static, M: Buffer + Send + 'static> Agent<P, M> {
    /// Starts the thread, which opens its engine. Fails with the error of `open`.
    pub fn spawn<T, A, F>(attr: AgentAttr, open: F) -> Result<Self, Error>
    where
        T: Transport + 'static,
        A: Allocator + Clone + Send + 'static,
        F: FnOnce() -> Result<Engine<'static, T, M, P, A>, Error> + Send + 'static,
    {
        let slots = Slots::new(attr.slots).filter(|slots| slots.len() > 0).ok_or(OpenError::Size)?;
        let shared = Arc::new(Shared {
            slots,
            counts: Counts::new(attr.histogram),
            opened: Instant::now(),
            closing: AtomicBool::new(false),
            thread: OnceLock::new(),
        });
        let (calls, receiver) = mpsc::channel();
        let (opened, result) = mpsc::sync_channel(1);
        let own = Arc::clone(&shared);
        let body = move || {
            let _ = own.thread.set(std::thread::current());
            let engine = catch_unwind(AssertUnwindSafe(open));
            match engine.unwrap_or(Err(Error::Invalid("the function that opens the engine panicked: return an error")))
            {
                Ok(engine) => {
                    let worker = Worker::new(engine, own, receiver, attr);
                    if opened.send(Ok(())).is_ok() {
                        worker.run();
                    }
                }
                Err(error) => {
                    let _ = opened.send(Err(error));
                }
            }
        };
        let named = std::thread::Builder::new().name(String::from("loom-agent"));
        let thread = named.spawn(body).map_err(|error| system("thread", &error))?;
        let thread = Mutex::new(Some(thread));
        let owner = Arc::new(Owner { shared: Arc::clone(&shared), thread });
        result.recv().unwrap_or(Err(ENDED))?;
        Ok(Agent { shared, calls, owner })
    }

    /// Submits a transfer, which waits for room in the engine. A refusal is an [`Outcome`] as well.
    #[expect(clippy::result_large_err, reason = "the request is returned, which is not boxed")]
    pub fn submit(&self, request: Request<P>) -> Result<Submission<P, Outcome<P>>, Rejected<Request<P>, Error>> {
        self.transfer(request, None)
    }

    /// [`Engine::submit_and_notify`](crate::Engine::submit_and_notify).
    #[expect(clippy::result_large_err, reason = "the request is returned, which is not boxed")]
    pub fn submit_and_notify(
        &self,
        request: Request<P>,
        message: &[u8],
    ) -> Result<Submission<P, Outcome<P>>, Rejected<Request<P>, Error>> {
        self.transfer(request, Some(message))
    }

    #[expect(clippy::result_large_err, reason = "the request is returned, which is not boxed")]
    fn transfer(
        &self,
        request: Request<P>,
        message: Option<&[u8]>,
    ) -> Result<Submission<P, Outcome<P>>, Rejected<Request<P>, Error>> {
        let work = Work::Transfer { request, notifies: message.is_some() };
        let fill = |bytes: &mut Vec<u8>| {
            bytes.clear();
            bytes.extend_from_slice(message.unwrap_or_default());
        };
        let ended = |done| if let Done::Ended(outcome) = done { Some(outcome) } else { None };
        self.begin(work, fill, ended).map_err(|(work, error)| match work {
            Work::Transfer { request: value, .. } => Rejected { value, error },
            _ => unreachable!("the work is returned unchanged"),
        })
    }

    #[expect(clippy::result_large_err, reason = "the request is returned, which is not boxed")]
    fn begin<R>(
        &self,
        work: Work<P>,
        fill: impl FnOnce(&mut Vec<u8>),
        result: fn(Done<P>) -> Option<R>,
    ) -> Result<Submission<P, R>, (Work<P>, Error)> {
        let since = if self.shared.counts.histogram.is_some() { self.shared.now() } else { 0 };
        let slot = self.shared.slots.submit(work, since, fill)?;
        self.shared.unpark();
        Ok(Submission { shared: Arc::clone(&self.shared), slot: Some(slot), result })
    }

    /// [`Engine::wait`](crate::Engine::wait). [`Submission::cancel`] ends it at once.
    pub fn wait(&self, wait: Wait) -> Result<Submission<P, ()>, Error> {
        self.begin(Work::Wait(wait), |_| (), completed).map_err(|(_, error)| error)
    }

    /// [`Engine::notify`](crate::Engine::notify), once the peer has room.
    pub fn notify(&self, peer: PeerKey, message: &[u8]) -> Result<Submission<P, ()>, Error> {
        let fill = |bytes: &mut Vec<u8>| {
            bytes.clear();
            bytes.extend_from_slice(message);
        };
        self.begin(Work::Notify(peer), fill, completed).map_err(|(_, error)| error)
    }

    /// Receives the next notification into a buffer, which grows if it is too short.
    pub fn next_notification(&self, buffer: Vec<u8>) -> Result<Submission<P, Message>, Error> {
        let received = |done| if let Done::Received(message) = done { Some(message) } else { None };
        self.begin(Work::Receive, |bytes| *bytes = buffer, received).map_err(|(_, error)| error)
    }

    /// Next change of a peer ([`Event::Peer`](crate::Event::Peer)).
    pub fn next_peer(&self) -> Result<Submission<P, PeerChange>, Error> {
        let changed = |done| if let Done::Changed(peer, result) = done { Some((peer, result)) } else { None };
        self.begin(Work::Watch, |_| (), changed).map_err(|(_, error)| error)
    }

    fn call<R: Send + 'static>(&self, call: impl FnOnce(&mut dyn Desk<M>) -> R + Send + 'static) -> Result<R, Error> {
        if self.shared.is_own_thread() {
            return Err(OWN_THREAD);
        }
        let (reply, result) = mpsc::sync_channel(1);
        let call: Call<M> = Box::new(move |desk| {
            let _ = reply.send(call(desk));
        });
        self.calls.send(call).map_err(|_| ENDED)?;
        self.shared.unpark();
        result
            .recv()
            .map_err(|_| Error::Invalid("the agent has ended, or the function panicked: spawn another, or correct it"))
    }

    /// [`Engine::address`](crate::Engine::address).
    pub fn address(&self) -> Result<Vec<u8>, Error> {
        self.call(|desk| desk.address())?
    }

    /// [`Engine::insert_peer`](crate::Engine::insert_peer).
    pub fn insert_peer(&self, record: impl Into<Vec<u8>>) -> Result<PeerKey, Error> {
        let record = record.into();
        self.call(move |desk| desk.insert_peer(&record))?
    }

    /// [`Engine::remove_peer`](crate::Engine::remove_peer).
    pub fn remove_peer(&self, peer: PeerKey) -> Result<bool, Error> {
        self.call(move |desk| desk.remove_peer(peer))
    }

    /// [`Engine::register`](crate::Engine::register).
    pub fn register(&self, memory: M, access: Access) -> Result<MemoryKey, Error> {
        self.call(move |desk| desk.register(memory, access))?
    }

    /// [`Engine::deregister`](crate::Engine::deregister).
    pub fn deregister(&self, memory: MemoryKey) -> Result<(), Error> {
        self.call(move |desk| desk.deregister(memory))?
    }

    /// [`Engine::remote`](crate::Engine::remote).
    pub fn remote(&self, memory: MemoryKey) -> Result<RemoteMemory, Error> {
        self.call(move |desk| desk.remote(memory))?
    }

    /// Calls a function with a memory's [window](crate::Engine::window) on the engine's thread.
    pub fn with_window<R: Send + 'static>(
        &self,
        memory: MemoryKey,
        function: impl FnOnce(Window<'_>) -> R + Send + 'static,
    ) -> Result<R, Error> {
        const UNKNOWN: Error = Error::Invalid("the memory is not registered: register it first");
        self.call(move |desk| desk.window(memory).map(function).ok_or(UNKNOWN))?
    }

    /// Records of the engine and of these memories.
    pub fn metadata(&self, name: &str, memories: &[(&str, MemoryKey)]) -> Result<Metadata, Error> {
        let described = memories.iter().map(|(name, key)| Ok((String::from(*name), self.remote(*key)?)));
        let memories = described.collect::<Result<Vec<_>, Error>>()?;
        Ok(Metadata { name: String::from(name), address: self.address()?, memories })
    }

    /// Time on the engine's clock, for [`Request::deadline`] and [`Wait::deadline`].
    #[must_use]
    pub fn time(&self, at: Instant) -> u64 {
        self.shared.time(at)
    }

    /// Counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.counts.read()
    }

    /// Transfers by the time from submission to end: element `n` counts those of 2<sup>n</sup> ns
    /// to twice that. `None` without [`AgentAttr::histogram`].
    #[must_use]
    pub fn histogram(&self) -> Option<[u64; 64]> {
        let histogram = self.shared.counts.histogram.as_ref()?;
        Some(core::array::from_fn(|index| histogram[index].load(Ordering::Relaxed)))
    }
}

fn completed<P>(done: Done<P>) -> Option<()> {
    matches!(done, Done::Completed).then_some(())
}

fn system(call: &'static str, error: &std::io::Error) -> Error {
    Error::System { call, errno: Errno::from_raw(error.raw_os_error().unwrap_or(Errno::EIO.as_raw())) }
}

impl<P, M> fmt::Debug for Agent<P, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("slots", &self.shared.slots.len()).finish_non_exhaustive()
    }
}
