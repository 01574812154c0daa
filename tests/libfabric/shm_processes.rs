//! `shm` between processes: closes of this side while the other process may still write into its
//! memory.
//!
//! Over `shm`, a process writes into the buffer of a peer that reads from it (cross-memory attach).
//! Each test starts a second process of this program, which holds a region and makes progress only
//! on request.

use support::shared_memory;

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use loom_core::av::Av;
use loom_core::buffer::{Buffer, Lent, TargetBuffer};
use loom_core::completion::Done;
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::{Endpoint, Source};
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table::Peer;
use loom_core::error::OpenError;
use loom_core::info::Hints;
use loom_core::mr::{Mr, RemoteRegion};
use loom_core::scope;
use loom_core::vocabulary::{Access, Caps, EndpointAddr, Errno};
use loom_fabric::loom_core;
use loom_fabric::ofi::{Local, Ofi};

type Shm = Ofi<Local>;

const LIMIT: Duration = Duration::from_secs(60);
/// Length that is not copied through shared memory.
const LEN: usize = 1 << 20;
const CONTENT: u8 = 0x5a;

fn domain() -> Domain<'static, Shm> {
    shared_memory::remove_at_exit();
    let hints = Hints { provider: Some("shm"), caps: Caps::MSG | Caps::RMA, ..Hints::default() };
    let info = Shm::query(&hints).expect("libfabric").next().expect("shm");
    Domain::open(&info).expect("domain")
}

struct Room {
    bytes: Box<[u8]>,
    dropped: Arc<AtomicUsize>,
}

// SAFETY: lends the memory of the box.
unsafe impl Buffer for Room {
    fn lend(&mut self) -> Lent {
        self.bytes.lend()
    }
}

impl TargetBuffer for Room {}

impl Drop for Room {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

struct Holder {
    process: Child,
    orders: Option<ChildStdin>,
    answers: Lines<BufReader<ChildStdout>>,
}

fn play(role: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    // Libraries that libfabric loads install handlers for signals, which would hide the end of a
    // role.
    command.env("IPATH_NO_BACKTRACE", "1").env("HFI_NO_BACKTRACE", "1");
    command.args(["--include-ignored", "--exact", "--nocapture", &format!("shm_processes::{role}")]);
    command
}

impl Holder {
    fn start() -> Self {
        let mut process =
            play("role_holds_a_region").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a second process");
        let orders = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().expect("piped")).lines();
        Holder { process, orders, answers }
    }

    /// Returns the next line that begins with this word, without it.
    fn hear(&mut self, word: &str) -> String {
        for line in &mut self.answers {
            if let Some((_, rest)) = line.expect("the other process writes text").split_once(word) {
                return rest.trim().to_string();
            }
        }
        panic!("the other process ended without '{word}'");
    }

    fn order_progress(&mut self) {
        writeln!(self.orders.as_mut().expect("piped"), "progress").expect("the other process listens");
        self.hear("@progressed");
    }

    fn reach(&mut self, av: &Av<'_, Shm>) -> (Peer, RemoteRegion) {
        let address: EndpointAddr = self.hear("@address").parse().expect("an address");
        let region: Vec<u8> = self.hear("@region").split(',').map(|byte| byte.parse().expect("a byte")).collect();
        let region = RemoteRegion::from_bytes(&region.try_into().expect("as long as a region"));
        (av.insert(&address).expect("the address is inserted"), region)
    }

    /// Posts a read that the other process has not begun to answer.
    fn read<'d>(
        &mut self,
        endpoint: &Endpoint<'d, Shm, Room>,
        av: &Av<'d, Shm>,
        len: usize,
        dropped: &Arc<AtomicUsize>,
    ) -> OpKey {
        let (peer, region) = self.reach(av);
        let mut room = Room { bytes: vec![0; len].into(), dropped: dropped.clone() };
        let deadline = Instant::now() + LIMIT;
        loop {
            match endpoint.read(peer, &region, 0, room) {
                Ok(key) => return key,
                Err(rejected) if rejected.error.is_transient() && Instant::now() < deadline => {
                    room = rejected.value;
                    endpoint.cq().progress().expect("the queue works");
                    self.order_progress();
                }
                Err(rejected) => panic!("not posted: {}", rejected.error),
            }
        }
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // The process ends with the channel of its orders, or is killed below.
        self.orders.take();
        let deadline = Instant::now() + Duration::from_secs(5);
        while let Ok(None) = self.process.try_wait()
            && Instant::now() < deadline
        {
            std::thread::yield_now();
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Holds a region and polls on request.
#[test]
#[ignore = "a role for the other tests"]
fn role_holds_a_region() {
    let domain = domain();
    let av = Av::open(&domain, 8).expect("address vector");
    let cq = Cq::<_, ()>::open(&domain, CqAttr::new(16)).expect("queue");
    let endpoint = cq.endpoint(&av).expect("endpoint");
    let region = Mr::open(&domain, vec![CONTENT; LEN], Access::REMOTE_READ).expect("region");
    println!("@address {}", endpoint.address().expect("address"));
    println!("@region {}", region.remote().to_bytes().map(|byte| byte.to_string()).join(","));
    for _order in std::io::stdin().lines() {
        for _ in 0..1000 {
            cq.progress().expect("the queue works");
        }
        println!("@progressed");
    }
}

fn finished(cq: &Cq<'_, Shm, Room>, holder: &mut Holder, key: OpKey) -> Done<Room> {
    let deadline = Instant::now() + LIMIT;
    loop {
        holder.order_progress();
        if let Some(done) = cq.wait(key, Instant::now() + Duration::from_millis(10)).expect("the queue works") {
            return done;
        }
        assert!(Instant::now() < deadline, "the read ends");
    }
}

#[test]
fn read_of_a_closed_endpoint_keeps_its_buffer_until_the_other_process_has_written_it() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let domain = domain();
    let av = Av::open(&domain, 8).expect("address vector");
    let cq = Cq::open(&domain, CqAttr::new(16)).expect("queue");
    let endpoint = cq.endpoint(&av).expect("endpoint");
    let mut holder = Holder::start();
    let key = holder.read(&endpoint, &av, LEN, &dropped);
    drop(endpoint);
    assert!(cq.wait(key, Instant::now()).expect("the queue works").is_none(), "the other process may still write");
    let (room, result) = finished(&cq, &mut holder, key).into_parts();
    assert_eq!(result.expect("the read goes on").len, LEN);
    assert!(room.bytes.iter().all(|byte| *byte == CONTENT));
    assert_eq!(dropped.load(Ordering::Relaxed), 0);
}

/// Checks short reads. A tested version answers one through its endpoint, or not at all. Another
/// one may write it like a long one.
#[test]
fn short_read_of_a_closed_endpoint_ends_or_keeps_its_buffer() {
    const SHORT: usize = 64;
    let dropped = Arc::new(AtomicUsize::new(0));
    let domain = domain();
    let av = Av::open(&domain, 8).expect("address vector");
    let cq = Cq::open(&domain, CqAttr::new(16)).expect("queue");
    let endpoint = cq.endpoint(&av).expect("endpoint");
    let mut holder = Holder::start();
    let key = holder.read(&endpoint, &av, SHORT, &dropped);
    drop(endpoint);
    let done = cq.wait(key, Instant::now()).expect("the queue works");
    if domain.info().raw().is_tested() {
        let (room, result) = done.expect("the read is over").into_parts();
        assert_eq!(result.expect_err("the endpoint is closed").errno, Errno::ECANCELED);
        for _ in 0..10 {
            holder.order_progress();
            cq.progress().expect("the queue works");
        }
        let window: Vec<_> = room.bytes.iter().map(|byte| std::hint::black_box(*byte)).collect();
        assert_eq!(window, [0; SHORT], "the buffer is this side's alone");
    } else {
        assert!(done.is_none(), "the other process may still write");
        let (room, result) = finished(&cq, &mut holder, key).into_parts();
        assert_eq!(result.expect("the read goes on").len, SHORT);
        assert!(room.bytes.iter().all(|byte| *byte == CONTENT));
    }
}

#[test]
fn short_read_of_a_closed_endpoint_keeps_its_buffer_over_a_version_that_is_not_tested() {
    let mut test = play("short_read_of_a_closed_endpoint_ends_or_keeps_its_buffer");
    let ended = test.env("LOOM_UNTESTED", "1").output().expect("another process");
    let text = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn closed_queue_leaks_the_buffer_of_a_read_that_the_other_process_may_still_write() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let domain = domain();
    let av = Av::open(&domain, 8).expect("address vector");
    let cq = Cq::open(&domain, CqAttr::new(16)).expect("queue");
    let endpoint = cq.endpoint(&av).expect("endpoint");
    let mut holder = Holder::start();
    holder.read(&endpoint, &av, LEN, &dropped);
    drop(endpoint);
    drop(cq);
    holder.order_progress();
    assert_eq!(dropped.load(Ordering::Relaxed), 0, "memory that is written by another process is nobody else's");
}

#[test]
#[ignore = "a role for the other tests: it ends the process"]
fn role_leaves_a_scope_with_a_read_in_flight() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let domain = domain();
    let mut holder = Holder::start();
    scope(|s| {
        let domain = s.domain(&domain);
        let av = Av::open(&domain, 8).expect("address vector");
        let cq = Cq::open(&domain, CqAttr::new(16)).expect("queue");
        let endpoint = cq.endpoint(&av).expect("endpoint");
        holder.read(&endpoint, &av, LEN, &dropped);
    });
    println!("@left");
}

/// Exposes borrowed memory in a scope, and forgets an endpoint that gives peers access to it.
#[test]
#[ignore = "a role for the other tests"]
fn role_leaves_a_region_scope_with_an_endpoint_open() {
    let info = domain().info().clone();
    let mut memory = [0; 64];
    let left = scope(|s| {
        let domain = s.open(&info)?;
        let _region = Mr::open(&domain, &mut memory[..], Access::REMOTE_WRITE)?;
        let av = Av::open(&domain, 8)?;
        let cq = Cq::<_, ()>::open(&domain, CqAttr::new(16))?;
        std::mem::forget(cq.endpoint(&av)?);
        std::mem::forget(cq);
        Ok::<_, OpenError>(())
    });
    println!("@left {left:?}");
}

fn played(role: &str) -> (ExitStatus, String) {
    let process = play(role).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("a second process");
    let id = process.id();
    let output = process.wait_with_output().expect("it ends");
    shared_memory::remove_names_of(id);
    let text = [output.stdout, output.stderr].concat();
    (output.status, String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn scope_ends_the_process_rather_than_a_borrow_that_another_process_may_still_write() {
    use std::os::unix::process::ExitStatusExt;
    let (status, text) = played("role_leaves_a_scope_with_a_read_in_flight");
    assert_eq!(status.signal(), Some(6), "{status}: {text}");
    assert!(text.contains("a provider failed to close an endpoint"), "{text}");
    assert!(!text.contains("@left"), "{text}");
}

#[test]
fn scope_closes_an_endpoint_that_was_forgotten_before_a_borrow_that_peers_may_reach_ends() {
    let (status, text) = played("role_leaves_a_region_scope_with_an_endpoint_open");
    let left = if domain().info().raw().is_tested() { "@left Ok(())" } else { "@left Err(NoFence)" };
    assert!(status.success() && text.contains(left), "{status}: {text}");
}

/// Checks a refusal: the end of the scope would not close an endpoint that was open before it.
#[test]
fn borrowed_memory_is_not_exposed_in_a_domain_that_outlives_the_scope() {
    let domain = domain();
    let mut memory = [0; 64];
    let refused = scope(|s| Mr::open(&s.domain(&domain), &mut memory[..], Access::REMOTE_WRITE).map(drop)).unwrap_err();
    assert_eq!(refused, OpenError::NoFence);
}

/// Opens endpoints beside the names of a killed process with this process's number.
#[test]
#[ignore = "a role for the other tests"]
fn role_opens_beside_names_that_were_left() {
    let domain = domain();
    let av = Av::open(&domain, 8).expect("address vector");
    let cq = Cq::<_, Vec<u8>>::open(&domain, CqAttr::new(16)).expect("queue");
    let a = cq.endpoint(&av).expect("endpoint");
    let name = |number| format!("/dev/shm/{}:0:{number}", std::process::id());
    for number in 1..20 {
        // The file of an earlier process with this number contains this number.
        std::fs::copy(name(0), name(number)).expect("a copy");
    }
    let b = cq.endpoint(&av).expect("another endpoint");
    let to_b = av.insert(&b.address().expect("its address")).expect("inserted");
    let received = b.recv(Source::Any, vec![0; 8]).expect("posted");
    let deadline = Instant::now() + LIMIT;
    // Refused temporarily until they have connected.
    while let Err(error) = a.inject(to_b, b"together") {
        assert!(error.is_transient() && Instant::now() < deadline, "{error:#}");
        cq.progress().expect("the queue works");
    }
    let (bytes, result) = cq.wait(received, deadline).expect("the queue works").expect("in time").into_parts();
    assert_eq!((&bytes[..], result.expect("received").len), (&b"together"[..], 8));
    println!("@opened");
}

#[test]
fn names_that_a_killed_process_left_are_passed_over() {
    let (status, text) = played("role_opens_beside_names_that_were_left");
    assert!(status.success() && text.contains("@opened"), "{status}: {text}");
}
