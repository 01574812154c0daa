//! [`Agent`]: an engine on its own thread, for programs with threads.

mod counters;
mod desk;
pub mod metadata;
mod slots;
mod submission;
mod thread;

use core::fmt;
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use std::boxed::Box;
use std::panic::{AssertUnwindSafe, catch_unwind};
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

const ENDED: Error = Error::Invalid("the agent has ended");
const OWN_THREAD: Error = Error::Invalid("the agent's own thread cannot wait for itself");

/// Attributes of an agent.
///
/// ```
/// use core::time::Duration;
/// use loom_transfer::AgentAttr;
///
/// // Polls without a pause, also without work.
/// let eager = AgentAttr { pause: Duration::ZERO, ..AgentAttr::default() };
/// assert!(!eager.histogram);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgentAttr {
    /// Maximum number of submissions that have not ended or have a result to take.
    pub slots: usize,
    /// Time without work after which the thread pauses between polls. It does not while transfers are
    /// in flight.
    pub spin: Duration,
    /// Length of a pause, which a submission ends. Peers' operations may wait for its end, if the
    /// provider depends on polls for them.
    pub pause: Duration,
    /// Records times from submission to end ([`Agent::histogram`]).
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
    /// Bytes, in the buffer of the submission.
    pub bytes: Vec<u8>,
    /// Sender.
    pub peer: PeerKey,
    /// End of its transfer ([`Notification::ending`](crate::Notification::ending)).
    pub ending: Ending,
    /// Writes that may still arrive ([`Notification::late_writes`](crate::Notification::late_writes)).
    pub late_writes: u64,
}

/// State of a peer that has changed, with its reason for a failure.
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
            // The thread catches panics.
            let _ = thread.join();
        }
    }
}

/// Engine on its own thread, for any number of threads.
///
/// Submissions take slots of a table that is allocated by [`spawn`](Self::spawn), and are futures and
/// handles to block on. The thread never waits for a caller. A submission does not allocate. Calls
/// that return a value directly, such as [`register`](Self::register), allocate, and wait until the
/// thread has made them.
///
/// The thread ends when the last handle is dropped, which waits for it, or when the queues of all
/// rails have failed. All submissions end with it. A panic of a plan ends its transfer alone.
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
/// std::thread::scope(|scope| {
///     for part in 0..4_u64 {
///         let agent = agent.clone();
///         scope.spawn(move || {
///             let plan = Block { local: 0, remote: part << 14, len: 1 << 14 };
///             let submission = agent.submit(Request::write(itself, source, &remote, plan))?;
///             assert_eq!(submission.wait()?.result()?, 1 << 14);
///             Ok::<_, loom_core::Error>(())
///         });
///     }
/// });
/// let last = agent.with_window(target, |window| {
///     let mut byte = [0];
///     window.copy_to((1 << 16) - 1, &mut byte).map(|()| byte[0])
/// })?;
/// assert_eq!((last?, agent.counters().bytes), (7, 1 << 16));
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// `P` is the type of the plans, and `M` that of the memory.
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
    /// Starts the thread, which opens its engine first.
    ///
    /// # Errors
    /// Those of `open`, [`OpenError::Size`] without slots, [`OpenError::OutOfMemory`], and
    /// [`Error::System`] if the system starts no thread.
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
            match engine.unwrap_or(Err(Error::Invalid("the function that opens the engine panicked"))) {
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

    /// Submits a transfer. The engine's refusal is an [`Outcome`] as well, which
    /// [failed](Ending::Failed). A transfer for which the engine has no room waits.
    ///
    /// # Errors
    /// The request, with [`Error::Full`] beyond [`AgentAttr::slots`], or [`Error::Invalid`] if the
    /// agent has ended.
    #[expect(clippy::result_large_err, reason = "the request is returned, which is not boxed")]
    pub fn submit(&self, request: Request<P>) -> Result<Submission<P, Outcome<P>>, Rejected<Request<P>, Error>> {
        self.transfer(request, None)
    }

    /// Submits a transfer with a notification
    /// ([`Engine::submit_and_notify`](crate::Engine::submit_and_notify)).
    ///
    /// # Errors
    /// Those of [`submit`](Self::submit).
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

    /// Waits for writes with one value of immediate data ([`Engine::wait`](crate::Engine::wait)). The
    /// submission fails at the wait's deadline, on the clock of [`time`](Self::time). After
    /// [`Submission::cancel`], the engine's wait exists until then.
    ///
    /// # Errors
    /// Those of [`submit`](Self::submit).
    pub fn wait(&self, wait: Wait) -> Result<Submission<P, ()>, Error> {
        self.begin(Work::Wait(wait), |_| (), completed).map_err(|(_, error)| error)
    }

    /// Sends a notification without a transfer ([`Engine::notify`](crate::Engine::notify)). Waits
    /// until the peer is ready and has room.
    ///
    /// # Errors
    /// Those of [`submit`](Self::submit).
    pub fn notify(&self, peer: PeerKey, message: &[u8]) -> Result<Submission<P, ()>, Error> {
        let fill = |bytes: &mut Vec<u8>| {
            bytes.clear();
            bytes.extend_from_slice(message);
        };
        self.begin(Work::Notify(peer), fill, completed).map_err(|(_, error)| error)
    }

    /// Receives the next notification of any peer into a buffer, which grows if it is too short.
    /// Until then, the notification stays in the engine's buffers, and its sender waits for room.
    ///
    /// # Errors
    /// Those of [`submit`](Self::submit).
    pub fn next_notification(&self, buffer: Vec<u8>) -> Result<Submission<P, Message>, Error> {
        let received = |done| if let Done::Received(message) = done { Some(message) } else { None };
        self.begin(Work::Receive, |bytes| *bytes = buffer, received).map_err(|(_, error)| error)
    }

    /// Waits until a peer with control messages is ready or has failed
    /// ([`Event::Peer`](crate::Event::Peer)).
    ///
    /// # Errors
    /// Those of [`submit`](Self::submit).
    pub fn next_peer(&self) -> Result<Submission<P, PeerChange>, Error> {
        let changed = |done| if let Done::Changed(peer, result) = done { Some((peer, result)) } else { None };
        self.begin(Work::Watch, |_| (), changed).map_err(|(_, error)| error)
    }

    /// Has the thread call a function, and waits for its result.
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
        result.recv().map_err(|_| Error::Invalid("the agent has ended, or the function panicked"))
    }

    /// Record of the engine's addresses ([`Engine::address`](crate::Engine::address)).
    ///
    /// # Errors
    /// Those of the engine, and [`Error::Invalid`] if the agent has ended, also for the calls below.
    pub fn address(&self) -> Result<Vec<u8>, Error> {
        self.call(|desk| desk.address())?
    }

    /// Inserts a peer ([`Engine::insert_peer`](crate::Engine::insert_peer)).
    ///
    /// # Errors
    /// Those of the engine.
    pub fn insert_peer(&self, record: impl Into<Vec<u8>>) -> Result<PeerKey, Error> {
        let record = record.into();
        self.call(move |desk| desk.insert_peer(&record))?
    }

    /// Removes a peer ([`Engine::remove_peer`](crate::Engine::remove_peer)).
    ///
    /// # Errors
    /// [`Error::Invalid`] if the agent has ended.
    pub fn remove_peer(&self, peer: PeerKey) -> Result<bool, Error> {
        self.call(move |desk| desk.remove_peer(peer))
    }

    /// Registers memory ([`Engine::register`](crate::Engine::register)).
    ///
    /// # Errors
    /// Those of the engine. The memory is dropped.
    pub fn register(&self, memory: M, access: Access) -> Result<MemoryKey, Error> {
        self.call(move |desk| desk.register(memory, access))?
    }

    /// Closes the regions of a memory ([`Engine::deregister`](crate::Engine::deregister)).
    ///
    /// # Errors
    /// Those of the engine.
    pub fn deregister(&self, memory: MemoryKey) -> Result<(), Error> {
        self.call(move |desk| desk.deregister(memory))?
    }

    /// Description with which peers reach a memory ([`Engine::remote`](crate::Engine::remote)).
    ///
    /// # Errors
    /// Those of the engine.
    pub fn remote(&self, memory: MemoryKey) -> Result<RemoteMemory, Error> {
        self.call(move |desk| desk.remote(memory))?
    }

    /// Calls a function with this side's view of a memory, on the engine's thread, which polls
    /// afterwards.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an unknown key, or if the function panicked.
    pub fn with_window<R: Send + 'static>(
        &self,
        memory: MemoryKey,
        function: impl FnOnce(Window<'_>) -> R + Send + 'static,
    ) -> Result<R, Error> {
        const UNKNOWN: Error = Error::Invalid("the memory is not registered");
        self.call(move |desk| desk.window(memory).map(function).ok_or(UNKNOWN))?
    }

    /// Records of this engine and of some of its memory, for peers.
    ///
    /// # Errors
    /// Those of [`address`](Self::address) and [`remote`](Self::remote).
    pub fn metadata(&self, name: &str, memories: &[(&str, MemoryKey)]) -> Result<Metadata, Error> {
        let described = memories.iter().map(|(name, key)| Ok((String::from(*name), self.remote(*key)?)));
        let memories = described.collect::<Result<Vec<_>, Error>>()?;
        Ok(Metadata { name: String::from(name), address: self.address()?, memories })
    }

    /// Time of an instant on the engine's clock, for [`Request::deadline`] and [`Wait::deadline`].
    #[must_use]
    pub fn time(&self, at: Instant) -> u64 {
        self.shared.time(at)
    }

    /// Counts since the agent was opened.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.shared.counts.read()
    }

    /// Transfers by the time from submission to end: element `n` counts those of at least
    /// 2<sup>n</sup> ns, up to twice that. `None` without [`AgentAttr::histogram`].
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
