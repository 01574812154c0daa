mod wire;

use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use core::{fmt, str};
use std::env;
use std::format;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::string::String;
use std::time::Instant;
use std::vec::Vec;

use loom_core::deadline::Deadline;

use self::wire::{Wire, decode, encode};
use super::error::errno;
use super::{Bootstrap, BootstrapError, LauncherFault, Mismatch, Round, check_rank};

const MAGIC: [u8; 4] = *b"lmb1";
/// Magic, kind of the round, limit and length.
const HEADER_LEN: usize = 16;
/// Bytes in a value, as two digits each. Values of PMI-2 have up to 1023.
const PART_LEN: usize = 500;
const PARTING: Duration = Duration::from_secs(1);

static TAKEN: AtomicBool = AtomicBool::new(false);

/// Rank that exchanges bytes through its launcher, over MPICH's PMI-2: `mpiexec -n 4 program`.
///
/// The launcher keeps all bytes until the job ends.
///
/// The fence does not name missing ranks: after the deadline the error is
/// [`LauncherFault::Silent`]. An MPI library in the process would use the same connection.
///
/// Dropping it takes leave of the launcher and waits up to 1 s for the answer,
/// [`close`](Self::close) until a deadline. A rank that panics or has failed a round takes no
/// leave.
pub struct Pmi {
    wire: Wire,
    rank: u32,
    size: u32,
    limit: u32,
    number: u32,
    ended: bool,
    buffer: Vec<u8>,
}

impl Pmi {
    /// Joins over the connection of the environment (`PMI_FD`, `PMI_RANK`). `limit` is the maximum
    /// number of bytes of a rank in a round, equal on all ranks.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open), [`BootstrapError::Environment`], and
    /// [`BootstrapError::Taken`] if this process has taken the connection before.
    ///
    /// # Safety
    ///
    /// If the environment has `PMI_FD`, it is an open descriptor without another owner in this
    /// process. This holds if a launcher has started the process and no other library, such as MPI,
    /// has taken it, but not if only the variable was inherited.
    #[expect(unsafe_code, reason = "a number alone names an inherited descriptor; `open` takes one that is owned")]
    pub unsafe fn from_env(limit: usize, until: &mut dyn Deadline) -> Result<Self, BootstrapError> {
        let descriptor: RawFd = variable("PMI_FD")?;
        let rank = variable("PMI_RANK")?;
        if descriptor < 0 {
            return Err(BootstrapError::Environment { variable: "PMI_FD" });
        }
        if TAKEN.swap(true, Ordering::Relaxed) {
            return Err(BootstrapError::Taken { rank });
        }
        // SAFETY: the caller guarantees that the descriptor is open and has no other owner. `TAKEN`
        // prevents a second use.
        let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
        Self::open(descriptor.into(), rank, limit, until)
    }

    /// Joins as `rank` over a connection to the launcher. See [`from_env`](Self::from_env).
    ///
    /// # Errors
    ///
    /// - [`BootstrapError::Size`], [`BootstrapError::UnknownRank`], [`BootstrapError::Limit`].
    /// - [`BootstrapError::Mismatch`]: the launcher does not support PMI-2 ([`Mismatch::Version`]),
    ///   or another rank has another limit.
    /// - [`BootstrapError::Launcher`], also if a rank is missing when `until` has passed.
    /// - [`BootstrapError::Malformed`], [`BootstrapError::System`].
    pub fn open(stream: UnixStream, rank: u32, limit: usize, until: &mut dyn Deadline) -> Result<Self, BootstrapError> {
        let limit = u32::try_from(limit).map_err(|_| BootstrapError::Limit { limit })?;
        let system = |error| BootstrapError::System { call: "fcntl", errno: errno(&error) };
        let mut wire = Wire::new(stream).map_err(system)?;
        let answer = wire.line("cmd=init pmi_version=2 pmi_subversion=0\n", until)?;
        if answer.get("cmd") != Some("response_to_init") {
            return Err(LauncherFault::Malformed.into());
        }
        if answer.number::<i32>("rc")? != 0 || answer.number::<u32>("pmi_version")? != 2 {
            return Err(BootstrapError::Mismatch(Mismatch::Version));
        }
        let answer = wire.request("fullinit", &format!("pmirank={rank};threaded=FALSE;"), until)?.done()?;
        let size = answer.number("size")?;
        check_rank(rank, size)?;
        if answer.number::<u32>("rank")? != rank {
            return Err(LauncherFault::Malformed.into());
        }
        let mut this = Pmi { wire, rank, size, limit, number: 0, ended: true, buffer: Vec::new() };
        this.play(Round::Barrier, &[], &mut |_, _| (), until)?;
        this.ended = false;
        Ok(this)
    }

    /// Takes leave of the launcher.
    ///
    /// # Errors
    ///
    /// [`BootstrapError::Launcher`], or [`BootstrapError::Ended`] without taking leave, if a round
    /// has failed.
    pub fn close(mut self, until: &mut dyn Deadline) -> Result<(), BootstrapError> {
        self.leave(until)
    }
}

impl Bootstrap for Pmi {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    /// Missing ranks are [`LauncherFault::Silent`].
    fn round(
        &mut self,
        round: Round,
        mine: &[u8],
        visit: &mut dyn FnMut(u32, &[u8]),
        until: &mut dyn Deadline,
    ) -> Result<(), BootstrapError> {
        if self.ended {
            return Err(BootstrapError::Ended);
        }
        let (len, limit) = (mine.len(), usize::try_from(self.limit).unwrap_or(usize::MAX));
        if len > limit {
            return Err(BootstrapError::TooLong { rank: self.rank, len, limit });
        }
        self.ended = true;
        self.number = self.number.checked_add(1).ok_or(BootstrapError::Ended)?;
        self.play(round, mine, visit, until)?;
        self.ended = false;
        Ok(())
    }
}

impl Drop for Pmi {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            _ = self.leave(&mut (Instant::now() + PARTING));
        }
    }
}

impl fmt::Debug for Pmi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pmi").field("rank", &self.rank).field("size", &self.size).finish_non_exhaustive()
    }
}

impl Pmi {
    fn leave(&mut self, until: &mut dyn Deadline) -> Result<(), BootstrapError> {
        if core::mem::replace(&mut self.ended, true) {
            return Err(BootstrapError::Ended);
        }
        self.wire.request("finalize", "", until)?.done()?;
        Ok(())
    }

    fn play(
        &mut self,
        round: Round,
        mine: &[u8],
        visit: &mut dyn FnMut(u32, &[u8]),
        until: &mut dyn Deadline,
    ) -> Result<(), BootstrapError> {
        let len = u32::try_from(mine.len()).unwrap_or(u32::MAX);
        self.buffer.clear();
        self.buffer.extend_from_slice(&self.header(round, len));
        self.buffer.extend_from_slice(mine);
        for (part, bytes) in self.buffer.chunks(PART_LEN).enumerate() {
            let mut fields = format!("key={};value=", key(self.number, self.rank, part));
            encode(bytes, &mut fields);
            fields.push(';');
            self.wire.request("kvs-put", &fields, until)?.done()?;
        }
        self.wire.request("kvs-fence", "", until)?.done()?;
        for rank in 0..self.size {
            if rank == self.rank {
                visit(rank, mine);
            } else {
                visit(rank, self.get(round, rank, until)?);
            }
        }
        Ok(())
    }

    fn get(&mut self, round: Round, rank: u32, until: &mut dyn Deadline) -> Result<&[u8], BootstrapError> {
        self.buffer.clear();
        self.get_part(rank, 0, until)?;
        let header = *self.buffer.first_chunk::<HEADER_LEN>().ok_or(BootstrapError::Malformed { rank })?;
        let [.., a, b, c, d] = header;
        let len = u32::from_le_bytes([a, b, c, d]);
        let ours = self.header(round, len);
        let differ = |from: usize| header.iter().zip(ours).skip(from).take(4).any(|(theirs, ours)| *theirs != ours);
        match () {
            () if differ(0) => return Err(BootstrapError::Malformed { rank }),
            () if differ(8) && self.number == 0 => return Err(BootstrapError::Mismatch(Mismatch::Limit)),
            () if differ(4) && !differ(8) && self.number > 0 => return Err(BootstrapError::OutOfStep { rank }),
            () if differ(4) || differ(8) || len > self.limit => return Err(BootstrapError::Malformed { rank }),
            () => {}
        }
        let whole = usize::try_from(len).unwrap_or(usize::MAX).saturating_add(HEADER_LEN);
        for part in 1..whole.div_ceil(PART_LEN) {
            self.get_part(rank, part, until)?;
        }
        let bytes = self.buffer.get(HEADER_LEN..).filter(|_| self.buffer.len() == whole);
        bytes.ok_or(BootstrapError::Malformed { rank })
    }

    fn get_part(&mut self, rank: u32, part: usize, until: &mut dyn Deadline) -> Result<(), BootstrapError> {
        let answer = self.wire.request("kvs-get", &format!("key={};", key(self.number, rank, part)), until)?;
        let found = answer.number::<i32>("rc")? == 0 && answer.get("found").is_none_or(|found| found == "TRUE");
        let value = answer.get("value").filter(|value| found && value.len() <= PART_LEN * 2);
        let before = self.buffer.len();
        // Refuses empty parts, so the bytes bound the number of requests.
        let good = value.is_some_and(|digits| decode(digits, &mut self.buffer)) && self.buffer.len() > before;
        if good { Ok(()) } else { Err(BootstrapError::Malformed { rank }) }
    }

    fn header(&self, round: Round, len: u32) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        let words = [round.code(), self.limit, len];
        let bytes = MAGIC.into_iter().chain(words.into_iter().flat_map(u32::to_le_bytes));
        out.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        out
    }
}

/// Unique: some launchers keep the first value of a key, others the last.
fn key(number: u32, rank: u32, part: usize) -> String {
    format!("loom.{number}.{rank}.{part}")
}

fn variable<N: str::FromStr>(variable: &'static str) -> Result<N, BootstrapError> {
    let value = env::var(variable).ok().and_then(|value| value.parse().ok());
    value.ok_or(BootstrapError::Environment { variable })
}
