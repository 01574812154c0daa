//! Implementations of the measured operations: loom's safe objects, loom's raw functions, and C.
//! All do the same work, on one thread, with both endpoints on one queue.

#[cfg(feature = "libfabric")]
pub(crate) mod c;
pub(crate) mod finish;
pub(crate) mod group;
pub(crate) mod raw;
pub(crate) mod safe;

use std::time::{Duration, Instant};

#[cfg(feature = "libfabric")]
use loom_core::info::{Hints, Info};
use loom_core::vocabulary::Caps;
#[cfg(feature = "libfabric")]
use loom_core::vocabulary::MsgOrder;
#[cfg(feature = "libfabric")]
use loom_fabric::ofi::{Local, Ofi};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Receive, injected message, completion of the receive.
    Inject,
    /// Receive, send, both completions.
    Message,
    /// Tagged receive, tagged send, both completions.
    Tagged,
    /// Tagged send, a poll, then the tagged receive and the remaining completions.
    Unexpected,
    /// Write and its completion.
    Write,
    /// Write with immediate data, its completion and the peer's event.
    WriteData,
    /// Read and its completion.
    Read,
    /// Fetch-and-add of a word of the peer, with the old value. 8 bytes only.
    FetchAdd,
    /// Poll of an empty queue.
    PollEmpty,
    /// Each of 64 completions of tagged receives with messages that were sent before. C takes at
    /// most this number in a call.
    PollFull(usize),
}

/// Completions polled from a full queue.
pub(crate) const FULL: usize = 64;

impl Operation {
    pub(crate) const SIZED: [Operation; 8] = [
        Operation::Inject,
        Operation::Message,
        Operation::Tagged,
        Operation::Unexpected,
        Operation::Write,
        Operation::WriteData,
        Operation::Read,
        Operation::FetchAdd,
    ];

    pub(crate) const POLLS: [Operation; 4] =
        [Operation::PollEmpty, Operation::PollFull(1), Operation::PollFull(16), Operation::PollFull(FULL)];

    pub(crate) fn kind(self) -> String {
        match self {
            Operation::Inject => "inject",
            Operation::Message => "message",
            Operation::Tagged => "tagged",
            Operation::Unexpected => "unexpected",
            Operation::Write => "write",
            Operation::WriteData => "write_data",
            Operation::Read => "read",
            Operation::FetchAdd => "fetch_add",
            Operation::PollEmpty => "poll_empty",
            Operation::PollFull(batch) => return format!("poll_full.{batch}"),
        }
        .into()
    }

    pub(crate) fn name(self, len: usize) -> String {
        let kind = self.kind();
        if Operation::SIZED.contains(&self) { format!("{kind}.{}", size_name(len)) } else { kind }
    }
}

pub(crate) const SIZES: [usize; 5] = [8, 64, 4 << 10, 64 << 10, 1 << 20];
/// Bytes of the target of an addition.
pub(crate) const WORD: usize = 8;
pub(crate) const LONGEST: usize = SIZES[SIZES.len() - 1];

pub(crate) fn size_name(len: usize) -> String {
    match len {
        len if len >= 1 << 20 => format!("{}MiB", len >> 20),
        len if len >= 1 << 10 => format!("{}KiB", len >> 10),
        len => format!("{len}B"),
    }
}

/// Returns every operation with every length that a side supports. Of a message longer than an
/// inject, only an offer can arrive before the receive.
pub(crate) fn work(inject_size: usize, atomics: bool) -> impl Iterator<Item = (Operation, usize)> {
    let sized = Operation::SIZED.into_iter().flat_map(|operation| SIZES.map(|len| (operation, len)));
    let fits = move |(operation, len): &(Operation, usize)| match operation {
        Operation::Inject | Operation::Unexpected => *len <= inject_size,
        Operation::FetchAdd => atomics && *len == WORD,
        _ => true,
    };
    sized.filter(fits).chain(Operation::POLLS.map(|operation| (operation, 0)))
}

pub(crate) const CAPS: Caps = Caps::MSG.union(Caps::TAGGED).union(Caps::RMA).union(Caps::ATOMIC);

/// Two endpoints that repeat an operation.
pub(crate) trait Side {
    fn run(&mut self, operation: Operation, len: usize, count: u32) -> Duration;
}

fn timed(run: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    run();
    begin.elapsed()
}

/// Takes `count` completions of a full queue, filled as often as required. Returns the duration
/// without the filling. `take` takes all completions.
fn drain<S>(count: u32, side: &mut S, fill: impl Fn(&mut S), take: impl Fn(&mut S)) -> Duration {
    let times = (count as usize).div_ceil(FULL);
    let mut took = Duration::ZERO;
    for _ in 0..times {
        fill(side);
        took += timed(|| take(side));
    }
    // Scaled from whole queues to `count`.
    took.mul_f64(f64::from(count) / (times * FULL) as f64)
}

#[cfg(feature = "libfabric")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Provider {
    /// Name in libfabric.
    pub(crate) name: &'static str,
    /// Name in metrics.
    pub(crate) metric: &'static str,
    pub(crate) node: Option<&'static str>,
    pub(crate) atomics: bool,
}

#[cfg(feature = "libfabric")]
impl Provider {
    pub(crate) const SHM: Provider = Provider { name: "shm", metric: "shm", node: None, atomics: true };
    pub(crate) const TCP: Provider =
        Provider { name: "tcp;ofi_rxm", metric: "tcp_rxm", node: Some("127.0.0.1"), atomics: false };
    /// On the wire of loom-tcp, in libfabric 1.17.
    pub(crate) const NET: Provider = Provider { name: "net", metric: "net", node: Some("127.0.0.1"), atomics: false };

    pub(crate) fn info(self) -> Result<Info<Ofi<Local>>, String> {
        let Provider { name, node, atomics, .. } = self;
        let caps = if atomics { CAPS } else { CAPS.difference(Caps::ATOMIC) };
        // Loom requests this order of shm in any case. With it, RMA goes through the peer's queue,
        // which checks keys.
        let hints = Hints { caps, provider: Some(name), node, listen: node.is_some(), ..Hints::default() };
        let mut infos =
            Ofi::<Local>::query(&hints.with_msg_order(MsgOrder::WAW)).map_err(|error| format!("{name}: {error:#}"))?;
        infos.next().ok_or_else(|| format!("libfabric offers no {name}"))
    }
}
