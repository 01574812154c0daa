//! Peer processes that write into a region of this side, or read from it, and are killed during it.
//! The region stays whole, serves others, and can be closed.

use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Instant;

use loom_core::Error;
use loom_core::buffer::{Buffer, Lent, TargetBuffer};
use loom_core::completion::Completion;
use loom_core::cq::Cq;
use loom_core::endpoint::Source;
use loom_core::engine::op_table::OpKey;
use loom_core::engine::peer_table::Peer;
use loom_core::error::Rejected;
use loom_core::info::Info;
use loom_core::mr::{Mr, RemoteRegion};
use loom_core::transport::MemoryRegions;
use loom_core::vocabulary::{Access, ImmediateData};

use super::Case;
use super::killed::until_in_the_middle;
use super::scene::{
    BEGIN, DONE, Endpoint, LIMIT, LONG, LONGEST_ANSWER, MISSED, Player, Scene, T, TRAIN, finish, full, post, room,
    with_scene,
};
use crate::process_death::watched::{Watch, Watched};

pub(crate) fn cases() -> Vec<(&'static str, Case)> {
    vec![
        ("an_initiator_is_killed_in_the_middle_of_writes", |info| {
            kill_in_the_middle(info, ["writes", "visits-writing"])
        }),
        ("an_initiator_is_killed_in_the_middle_of_writes_with_immediate_data", |info| {
            kill_in_the_middle(info, ["writes-data", "visits-writing-data"]);
        }),
        ("an_initiator_is_killed_in_the_middle_of_reads", |info| kill_in_the_middle(info, ["reads", "visits-reading"])),
        ("regions_are_closed_right_after_their_initiators_were_killed", closing_right_after_kills),
    ]
}

/// Parts of the processes. Visitors are not killed, and report their end.
pub(crate) const PARTS: [&str; 6] =
    ["writes", "writes-data", "reads", "visits-writing", "visits-writing-data", "visits-reading"];

/// Ranges of visitors: one that a killed writer has begun, and one that it has not.
const VISITED: [usize; 2] = [0, TRAIN - 1];
/// Offset of the numbers of visitors' ranges.
const VISITORS: u64 = 100;

/// Length of the untouched bytes between the ranges.
const GAP: usize = 1000;
const UNTOUCHED: u8 = 0xa5;

fn place(number: usize) -> usize {
    GAP + number * (LONG + GAP)
}

/// Plays a part, after this side has sent its region. Returns the range to watch, if the process is
/// killed while it is filled.
pub(crate) fn play(part: &str, cq: &Cq<'_, T, Watched>, endpoint: &Endpoint<'_>, to: Peer) -> Vec<Watch> {
    let told = post(cq, room(RemoteRegion::WIRE_LEN), |buf| endpoint.tagged_recv(Source::Any, BEGIN, buf));
    let (bytes, _) = finish(cq, told);
    let region = RemoteRegion::from_bytes(&(*bytes).try_into().expect("as long as a region"));
    let visits = part.starts_with("visits");
    let reads = part.contains("read");
    let numbers: Vec<_> = if visits { VISITED.into() } else { (0..TRAIN).collect() };
    let mut filled = Vec::new();
    let mut keys = Vec::new();
    for number in numbers {
        let at = place(number) as u64;
        let data = ImmediateData(number as u64 + if visits { VISITORS } else { 0 });
        let buf = if reads { room(LONG) } else { full(LONG) };
        filled.push(buf.watch());
        let initiate = |buf| -> Result<OpKey, Rejected<Watched>> {
            match part {
                _ if reads => endpoint.read(to, &region, at, buf),
                _ if part.ends_with("-data") => endpoint.write_data(to, &region, at, data, buf),
                _ => endpoint.write(to, &region, at, buf),
            }
        };
        keys.push(post(cq, buf, initiate));
    }
    if !visits {
        return if reads { filled } else { Vec::new() };
    }
    drop(filled);
    for key in keys {
        assert!(*finish(cq, key).0 == *vec![1; LONG], "what was read, or written");
    }
    finish(cq, post(cq, full(1), |buf| endpoint.tagged_send(to, DONE, buf)));
    Vec::new()
}

struct Exposed {
    bytes: Box<[u8]>,
    _there: Arc<()>,
}

// SAFETY: lends the memory of the box.
unsafe impl Buffer for Exposed {
    fn lend(&mut self) -> Lent {
        self.bytes.lend()
    }
}

impl TargetBuffer for Exposed {}

impl Exposed {
    /// Opens ranges of zeros for writes, or of ones for reads, with untouched bytes between them.
    fn new(part: &str) -> (Self, Weak<()>) {
        let mut bytes = vec![UNTOUCHED; place(TRAIN)];
        for number in 0..TRAIN {
            bytes[place(number)..][..LONG].fill(u8::from(part.starts_with("reads")));
        }
        let there = Arc::new(());
        let watch = Arc::downgrade(&there);
        (Exposed { bytes: bytes.into(), _there: there }, watch)
    }

    /// Checks that the visitor's ranges are complete, others at most begun, and all other bytes
    /// unchanged.
    fn is_whole(&self) -> bool {
        let visited = |number| self.bytes[place(number)..][..LONG] == *vec![1; LONG];
        let mut parts = (0..TRAIN).flat_map(|number| self.bytes[place(number)..][..LONG].chunks(LONG / 1024));
        let begun =
            |part: &[u8]| part == [0; LONG / 1024] || part == [1; LONG / 1024] || part.iter().all(|byte| *byte < 2);
        let untouched = |number| self.bytes[place(number) - GAP..][..GAP] == [UNTOUCHED; GAP];
        self.bytes.len() == place(TRAIN)
            && VISITED.into_iter().all(visited)
            && parts.all(begun)
            && (0..=TRAIN).all(untouched)
    }
}

const ACCESS: Access = Access::REMOTE_READ.union(Access::REMOTE_WRITE);

fn has_come(region: &Mr<'_, T, Exposed>, at: usize) -> bool {
    region.window().load(at, Ordering::Relaxed).expect("within the region") == 1
}

fn begin(scene: &Scene<'_, '_>, peer: &Player, region: &Mr<'_, T, Exposed>) {
    let deadline = Instant::now() + LIMIT;
    while let Err(error) = scene.a.tagged_inject(peer.peer, BEGIN, &region.remote().to_bytes()) {
        assert!(error.is_transient() && Instant::now() < deadline, "{error:#}");
        scene.cq.progress().expect("the queue works");
    }
}

/// Kills a peer during its access to the region. A reader kills itself. Returns `false` if the
/// middle was missed.
fn is_killed_in_the_middle(
    scene: &Scene<'_, '_>,
    part: &str,
    killed: &mut Player,
    region: &Mr<'_, T, Exposed>,
) -> bool {
    let writes = part.starts_with("writes");
    let question = scene.ask(&scene.a, 0, LONGEST_ANSWER, 1);
    begin(scene, killed, region);
    let deadline = Instant::now() + LIMIT;
    let status = loop {
        assert!(Instant::now() < deadline, "never in the middle");
        scene.cq.progress().expect("the queue works");
        if writes && has_come(region, place(TRAIN - 1) + LONG - 1) {
            return false;
        }
        if writes && has_come(region, place(0)) {
            killed.process.kill();
        }
        if let Some(status) = killed.process.ended() {
            break status;
        }
    };
    if status.code() == Some(MISSED) {
        return false;
    }
    assert_eq!(status.signal(), Some(9), "{status}");
    scene.is_answered(question);
    true
}

/// Reports: the data of writes, and the number of failed ones, if the provider reports them (`net`,
/// `sockets`).
#[derive(Default)]
struct Told {
    data: Vec<u64>,
    failures: usize,
}

impl Told {
    fn take(&mut self, scene: &Scene<'_, '_>) {
        while let Some(completion) = scene.cq.poll().expect("the queue works") {
            match completion {
                Completion::Remote(event) => self.data.push(event.data().expect("immediate data").0),
                Completion::Unclaimed(_) => self.failures += 1,
                other => panic!("not expected: {other:?}"),
            }
        }
    }
}

/// Kills a peer during its access to a region. Then another one, which was open before, accesses
/// it.
fn kill_in_the_middle(info: &Info<T>, parts: [&str; 2]) {
    until_in_the_middle(|| {
        let mut met = false;
        with_scene(info, parts, |scene, [mut killed, visits]| {
            scene.exchange(1);
            let (memory, _) = Exposed::new(parts[0]);
            let region = Mr::open(scene.domain, memory, ACCESS).expect("a region");
            met = is_killed_in_the_middle(&scene, parts[0], &mut killed, &region);
            if !met {
                return Vec::new();
            }
            scene.exchange(2);
            let done = post(scene.cq, room(1), |buf| scene.a.tagged_recv(Source::Any, DONE, buf));
            begin(&scene, &visits, &region);
            finish(scene.cq, done);
            scene.exchange(1);
            let mut told = Told::default();
            told.take(&scene);
            // One report for each completed write, and no other.
            let (visitors, killed): (Vec<_>, Vec<_>) = told.data.into_iter().partition(|data| *data >= VISITORS);
            let has_data = parts[0] == "writes-data";
            assert_eq!(
                visitors,
                if has_data { VISITED.map(|number| VISITORS + number as u64).to_vec() } else { vec![] }
            );
            assert!(has_data || killed.is_empty(), "{killed:?}");
            assert!((0..).zip(&killed).all(|(number, data)| number == *data), "{killed:?}");
            assert!((0..killed.len()).all(|number| has_come(&region, place(number) + LONG - 1)), "{killed:?}");
            assert!(told.failures <= usize::from(parts[0] != "reads"), "one write at most was in its middle");
            let closed = region.close();
            scene.exchange(1);
            drop((scene.a, scene.b));
            let memory = match closed {
                Ok(memory) if T::MR_CLOSE_FENCES => memory,
                Err(Rejected { value: Some(region), error: Error::StillReached }) => {
                    region.close().expect("it is closed")
                }
                _ => panic!("peers may reach the memory"),
            };
            assert!(memory.is_whole());
            Vec::new()
        });
        met
    });
}

/// Drops objects before the provider may have noticed the death: the memory is freed with the last
/// endpoint.
fn closing_right_after_kills(info: &Info<T>) {
    const PARTS: [&str; 2] = ["writes", "reads"];
    until_in_the_middle(|| {
        let mut met = true;
        with_scene(info, PARTS, |scene, mut killed| {
            scene.exchange(1);
            let mut memories = Vec::new();
            for (part, killed) in PARTS.into_iter().zip(&mut killed) {
                let (memory, watch) = Exposed::new(part);
                let region = Mr::open(scene.domain, memory, ACCESS).expect("a region");
                met &= is_killed_in_the_middle(&scene, part, killed, &region);
                memories.push(watch);
            }
            if !met {
                return Vec::new();
            }
            scene.exchange(2);
            let there = || memories.iter().map(Weak::strong_count).collect::<Vec<_>>();
            let reached = usize::from(!T::MR_CLOSE_FENCES);
            assert_eq!(there(), [reached; 2], "peers may reach them");
            let mut told = Told::default();
            told.take(&scene);
            assert!(told.data.is_empty() && told.failures <= 1);
            drop((scene.a, scene.b));
            assert_eq!(there(), [0, 0], "nobody reaches them any more");
            Vec::new()
        });
        met
    });
}
