use core::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::vec::Vec;
use std::{format, string::String};

use loom_core::deadline::Deadline;

use super::error::errno;
use super::{Bootstrap, BootstrapError, Mismatch, Pause, Round, check_rank};

const MAGIC: [u8; 4] = *b"lmbd";
const VERSION: u32 = 1;
/// Magic, version, round number, kind, rank, size, limit and length.
const HEADER_LEN: usize = 32;
/// Last round of joining.
const INTRODUCED: u32 = 1;

/// Attributes of a [`Directory`], equal on all ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectoryAttr<'p> {
    /// Directory that all ranks share. It is created if it does not exist.
    pub path: &'p Path,
    /// Name of the job: a directory below `path`. No other run may have used it.
    pub job: &'p str,
    /// Number of ranks.
    pub size: u32,
    /// Maximum number of bytes of a rank in a round.
    pub limit: usize,
}

/// Rank that exchanges bytes over files in a directory: in a round, each rank writes one and reads
/// the others.
///
/// A rank removes its file after the next round. Its introduction and last file remain: remove the
/// job's directory after the program has ended.
pub struct Directory {
    folder: PathBuf,
    rank: u32,
    size: u32,
    limit: u32,
    /// Last round. Round 0 is the introduction.
    number: u32,
    ended: bool,
    buffer: Vec<u8>,
}

impl Directory {
    /// Joins as `rank`, and waits for all ranks.
    ///
    /// File system calls may take longer than the deadline.
    ///
    /// # Errors
    /// [`BootstrapError::Size`], [`BootstrapError::UnknownRank`], [`BootstrapError::Limit`],
    /// [`BootstrapError::Name`], [`BootstrapError::Missing`], [`BootstrapError::Mismatch`],
    /// [`BootstrapError::Malformed`], [`BootstrapError::System`], and [`BootstrapError::Used`] if
    /// this rank of the job was joined before, in any run.
    pub fn open(attr: &DirectoryAttr<'_>, rank: u32, until: &mut dyn Deadline) -> Result<Self, BootstrapError> {
        check_rank(rank, attr.size)?;
        let limit = u32::try_from(attr.limit).map_err(|_| BootstrapError::Limit { limit: attr.limit })?;
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if attr.job.is_empty() || attr.job.starts_with('.') || !attr.job.bytes().all(plain) {
            return Err(BootstrapError::Name);
        }
        let folder = attr.path.join(attr.job);
        fs::create_dir_all(&folder).map_err(|error| system("mkdir", &error))?;
        match OpenOptions::new().write(true).create_new(true).open(folder.join(format!("claim.{rank}"))) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(BootstrapError::Used),
            Err(error) => return Err(system("open", &error)),
        }
        let mut this = Directory { folder, rank, size: attr.size, limit, number: 0, ended: false, buffer: Vec::new() };
        this.play(Round::Barrier, &[], &mut |_, _| (), until)?;
        // If an earlier run failed without this rank, its introductions remain.
        this.number = INTRODUCED;
        this.play(Round::Barrier, &[], &mut |_, _| (), until)?;
        Ok(this)
    }
}

impl Bootstrap for Directory {
    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

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
        // Unique, so no file of an earlier round is taken for a new one.
        self.number = self.number.checked_add(1).ok_or(BootstrapError::Ended)?;
        self.play(round, mine, visit, until)?;
        self.ended = false;
        Ok(())
    }
}

impl fmt::Debug for Directory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Directory");
        debug.field("folder", &self.folder).field("rank", &self.rank).field("size", &self.size).finish_non_exhaustive()
    }
}

impl Directory {
    fn play(
        &mut self,
        round: Round,
        mine: &[u8],
        visit: &mut dyn FnMut(u32, &[u8]),
        until: &mut dyn Deadline,
    ) -> Result<(), BootstrapError> {
        let len = u32::try_from(mine.len()).unwrap_or(u32::MAX);
        self.buffer.clear();
        self.buffer.extend_from_slice(&self.header(round, self.rank, len));
        self.buffer.extend_from_slice(mine);
        let name = self.name(self.number, self.rank);
        let unnamed = self.folder.join(format!("{name}.tmp"));
        let written = File::create(&unnamed).and_then(|mut file| file.write_all(&self.buffer));
        written.map_err(|error| system("write", &error))?;
        fs::rename(&unnamed, self.folder.join(&name)).map_err(|error| system("rename", &error))?;
        for rank in 0..self.size {
            let mut pause = Pause::default();
            while !self.read(rank)? {
                if until.passed() {
                    return Err(BootstrapError::Missing { rank });
                }
                pause.wait();
            }
            visit(rank, self.check(round, rank)?);
        }
        // Every rank has read the round before. Introductions stay for late ranks.
        if let Some(before @ 1..) = self.number.checked_sub(1) {
            _ = fs::remove_file(self.folder.join(self.name(before, self.rank)));
        }
        Ok(())
    }

    fn read(&mut self, rank: u32) -> Result<bool, BootstrapError> {
        let file = match File::open(self.folder.join(self.name(self.number, rank))) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(system("open", &error)),
        };
        self.buffer.clear();
        // Detects longer files.
        let most = u64::from(self.limit) + 1 + HEADER_LEN as u64;
        file.take(most).read_to_end(&mut self.buffer).map_err(|error| system("read", &error))?;
        Ok(true)
    }

    fn check(&self, round: Round, rank: u32) -> Result<&[u8], BootstrapError> {
        let malformed = BootstrapError::Malformed { rank };
        let (header, bytes) = self.buffer.split_first_chunk::<HEADER_LEN>().ok_or(malformed)?;
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        if *header == self.header(round, rank, len) && len <= self.limit {
            return Ok(bytes);
        }
        let ours = self.header(round, rank, len);
        let differ = |word: usize| {
            let at = word.saturating_mul(4);
            header.get(at..).and_then(<[u8]>::first_chunk::<4>) != ours.get(at..).and_then(<[u8]>::first_chunk::<4>)
        };
        let joins = self.number <= INTRODUCED;
        Err(match () {
            () if differ(0) => malformed,
            () if differ(1) && joins => BootstrapError::Mismatch(Mismatch::Version),
            () if differ(1) || differ(2) || differ(4) => malformed,
            () if differ(5) && joins => BootstrapError::Mismatch(Mismatch::Size),
            () if differ(6) && joins => BootstrapError::Mismatch(Mismatch::Limit),
            () if differ(5) || differ(6) || joins => malformed,
            () if differ(3) => BootstrapError::OutOfStep { rank },
            () => malformed,
        })
    }

    fn header(&self, round: Round, rank: u32, len: u32) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        let words = [VERSION, self.number, round.code(), rank, self.size, self.limit, len];
        let bytes = MAGIC.into_iter().chain(words.into_iter().flat_map(u32::to_le_bytes));
        out.iter_mut().zip(bytes).for_each(|(place, byte)| *place = byte);
        out
    }

    fn name(&self, number: u32, rank: u32) -> String {
        format!("{number}.{rank}")
    }
}

fn system(call: &'static str, error: &io::Error) -> BootstrapError {
    BootstrapError::System { call, errno: errno(error) }
}
