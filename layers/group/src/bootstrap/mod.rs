//! How peers that cannot reach each other over the fabric yet exchange their first bytes.
//!
//! A [`Bootstrap`] connects `size` ranks, counted from 0. Each call is a round in which every rank takes part with the same call:
//! [`all_gather`](Bootstrap::all_gather) gives the bytes of each rank to all, [`broadcast`](Bootstrap::broadcast) those of one rank,
//! and [`barrier`](Bootstrap::barrier) none. Every wait has a deadline, and the error names the lowest rank that is missing.
//!
//! | bootstrap | connects |
//! |---|---|
//! | [`InProcess`] | threads of one process, over a [`Board`] of memory; needs no `std` |
//! | `Tcp` | processes that reach one address of rank 0; feature `std` |
//! | `Directory` | processes that share a file system; feature `std` |
//! | `Pmi` | processes that a launcher of MPI programs has started, by the protocol PMI-2; feature `pmi` |
//!
//! Programs with a launcher that is none of these implement [`Bootstrap::round`] over it, and get the rest.
//!
//! # Trust
//!
//! The bytes of other ranks are checked before they are used, and none of them cause a panic or an unbounded allocation. The ranks
//! are not authenticated: what can reach the address of `Tcp` and knows its job number can take the place of a rank.

#[cfg(feature = "std")]
mod directory;
mod error;
mod in_process;
#[cfg(all(feature = "pmi", unix))]
mod pmi;
mod slots;
#[cfg(feature = "std")]
mod tcp;

use loom_core::deadline::Deadline;

#[cfg(feature = "std")]
pub use self::directory::{Directory, DirectoryAttr};
pub use self::error::{BootstrapError, JoinError, LauncherError, Mismatch};
pub use self::in_process::AllocatedBoard;
pub use self::in_process::{Board, InProcess, Seat};
#[cfg(all(feature = "pmi", unix))]
pub use self::pmi::Pmi;
pub use self::slots::Slots;
#[cfg(feature = "std")]
pub use self::tcp::{Tcp, TcpAttr};

/// The most ranks that the bootstraps of this module connect.
pub const MAX_SIZE: u32 = 1 << 20;

/// What a round is for. All ranks must agree on it.
///
/// ```
/// use loom_core::deadline::Deadline;
/// use loom_group::bootstrap::{Bootstrap, BootstrapError, Round};
///
/// /// A bootstrap of one rank: it needs no other, and so every round is over at once.
/// struct Alone;
///
/// impl Bootstrap for Alone {
///     fn rank(&self) -> u32 {
///         0
///     }
///     fn size(&self) -> u32 {
///         1
///     }
///     fn round(
///         &mut self,
///         round: Round,
///         mine: &[u8],
///         visit: &mut dyn FnMut(u32, &[u8]),
///         _: &mut dyn Deadline,
///     ) -> Result<(), BootstrapError> {
///         match round {
///             Round::AllGather | Round::Broadcast { root: 0 } => visit(0, mine),
///             Round::Broadcast { .. } | Round::Barrier => {}
///         }
///         Ok(())
///     }
/// }
///
/// let mut address = *b"fi_shm://1";
/// assert_eq!(Alone.broadcast(0, &mut address, &mut loom_core::Forever), Ok(10));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// Each rank gives bytes.
    AllGather,
    /// One rank gives bytes.
    Broadcast {
        /// The rank that gives them.
        root: u32,
    },
    /// No rank gives bytes.
    Barrier,
}

#[cfg(feature = "std")]
impl Round {
    /// As a number: a root is below [`MAX_SIZE`], and the others are above.
    const fn code(self) -> u32 {
        match self {
            Round::AllGather => u32::MAX,
            Round::Barrier => u32::MAX - 1,
            Round::Broadcast { root } => root,
        }
    }
}

/// Ranks that exchange bytes in rounds.
///
/// # Contract
///
/// 1. All ranks make the same calls in the same order.
/// 2. A round ends on a rank when the bytes of every rank have come to it, so that each round is a barrier, too.
/// 3. After [`Missing`](BootstrapError::Missing), [`OutOfStep`](BootstrapError::OutOfStep),
///    [`Malformed`](BootstrapError::Malformed), [`Launcher`](BootstrapError::Launcher) or [`System`](BootstrapError::System) the ranks are no longer in step, and every later
///    round is [`Ended`](BootstrapError::Ended). Other errors leave the ranks in step, or refuse the call before it has an effect.
///
/// The trait is dyn-compatible, so that a program can choose its bootstrap when it starts.
///
/// ```
/// use loom_core::deadline::Deadline;
/// use loom_group::bootstrap::{Board, Bootstrap, BootstrapError, InProcess, Seat, Slots};
///
/// /// What every rank has: over whatever connects them.
/// fn sum_of_all(ranks: &mut dyn Bootstrap, mine: u8, until: &mut dyn Deadline) -> Result<u32, BootstrapError> {
///     let mut memory = [0; Slots::memory_len(16, 1)];
///     let mut all = Slots::new(&mut memory, ranks.size());
///     ranks.all_gather(&[mine], &mut all, until)?;
///     Ok(all.iter().flatten().map(|byte| u32::from(*byte)).sum())
/// }
///
/// # let mut memory = [0; 2 * 16];
/// # let mut seats = [const { Seat::new() }; 1];
/// # let board = Board::over(&mut seats, &mut memory)?;
/// let mut alone = InProcess::join(&board, 0)?;
/// assert_eq!(sum_of_all(&mut alone, 7, &mut loom_core::Forever)?, 7);
/// # Ok::<_, loom_core::Error>(())
/// ```
pub trait Bootstrap {
    /// This rank, below [`size`](Self::size).
    fn rank(&self) -> u32;

    /// The number of ranks.
    fn size(&self) -> u32;

    /// Plays one round: gives `mine` to every rank, and calls `visit` with each rank and its bytes, in ascending order and this rank
    /// included. `visit` should copy the bytes and return, because other ranks may wait for this rank in the next round. It may play
    /// rounds of other ranks of the process. If the round fails, `visit` may have been called for some ranks.
    ///
    /// # Errors
    ///
    /// - [`BootstrapError::Missing`]: a rank did not take part before `until` passed, or left. The lowest rank is named.
    /// - [`BootstrapError::TooLong`]: `mine` is longer than the bootstrap carries. Nothing was given.
    /// - [`BootstrapError::OutOfStep`]: a rank plays another round.
    /// - [`BootstrapError::Launcher`]: the launcher that connects the ranks fails them. Where it is silent, a rank may be missing.
    /// - [`BootstrapError::Malformed`]: a rank gave bytes that are not part of this protocol.
    /// - [`BootstrapError::Ended`]: an earlier round failed.
    /// - [`BootstrapError::System`]: the operating system refused.
    fn round(
        &mut self,
        round: Round,
        mine: &[u8],
        visit: &mut dyn FnMut(u32, &[u8]),
        until: &mut dyn Deadline,
    ) -> Result<(), BootstrapError>;

    /// Gives `mine` to every rank, and stores the bytes of each rank in its slot of `all`. Lengths may differ from rank to rank.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use std::time::{Duration, Instant};
    ///
    /// use loom_group::bootstrap::{Board, Bootstrap, InProcess, Slots};
    ///
    /// let board = Board::open(3, 16).expect("there is memory");
    /// let gathered = std::thread::scope(|scope| {
    ///     let ranks: Vec<_> = (0..3).map(|rank| scope.spawn({
    ///         let board = &board;
    ///         move || {
    ///             let mut until = Instant::now() + Duration::from_secs(5);
    ///             let mut memory = [0; Slots::memory_len(3, 16)];
    ///             let mut all = Slots::new(&mut memory, 3);
    ///             let mut ranks = InProcess::join(board, rank).expect("the seat is free");
    ///             // The lengths differ: rank 0 gives nothing.
    ///             ranks.all_gather(&[7; 16][..rank as usize], &mut all, &mut until).map(|()| all.iter().map(<[u8]>::len).sum::<usize>())
    ///         }
    ///     })).collect();
    ///     ranks.into_iter().map(|rank| rank.join().expect("no panic")).collect::<Vec<_>>()
    /// });
    /// assert_eq!(gathered, [Ok(3); 3]);
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`round`](Self::round), and
    ///
    /// - [`BootstrapError::SlotCount`]: `all` does not have one slot for each rank. Nothing was given.
    /// - [`BootstrapError::TooLong`]: the bytes of a rank do not fit into their slot. Its slot is empty, the other slots are filled,
    ///   and the ranks are in step. The lowest rank is named.
    fn all_gather(&mut self, mine: &[u8], all: &mut Slots<'_>, until: &mut dyn Deadline) -> Result<(), BootstrapError> {
        if all.count() != self.size() {
            return Err(BootstrapError::SlotCount { count: all.count(), size: self.size() });
        }
        all.clear();
        let mut outcome = Ok(());
        let mut visit = |rank, bytes: &[u8]| {
            if !all.put(rank, bytes) && outcome.is_ok() {
                outcome = Err(BootstrapError::TooLong { rank, len: bytes.len(), limit: all.limit() });
            }
        };
        self.round(Round::AllGather, mine, &mut visit, until)?;
        outcome
    }

    /// Gives all of `bytes` of the rank `root` to every rank, and returns their number. On the other ranks they are written to the
    /// start of `bytes`.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use std::time::{Duration, Instant};
    ///
    /// use loom_group::bootstrap::{Board, Bootstrap, InProcess};
    ///
    /// let board = Board::open(2, 16).expect("there is memory");
    /// std::thread::scope(|scope| {
    ///     for rank in 0..2 {
    ///         let board = &board;
    ///         scope.spawn(move || {
    ///             let mut until = Instant::now() + Duration::from_secs(5);
    ///             let mut ranks = InProcess::join(board, rank).expect("the seat is free");
    ///             let mut bytes = if rank == 1 { *b"hello" } else { [0; 5] };
    ///             assert_eq!(ranks.broadcast(1, &mut bytes, &mut until), Ok(5));
    ///             assert_eq!(&bytes, b"hello");
    ///         });
    ///     }
    /// });
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`round`](Self::round), and
    ///
    /// - [`BootstrapError::UnknownRank`]: `root` is not below [`size`](Self::size). Nothing was given.
    /// - [`BootstrapError::TooLong`]: `bytes` of this rank are shorter than those of `root`. They stay as they were, and the ranks
    ///   are in step.
    fn broadcast(&mut self, root: u32, bytes: &mut [u8], until: &mut dyn Deadline) -> Result<usize, BootstrapError> {
        let (rank, size) = (self.rank(), self.size());
        if root >= size {
            return Err(BootstrapError::UnknownRank { rank: root, size });
        }
        let round = Round::Broadcast { root };
        if rank == root {
            self.round(round, bytes, &mut |_, _| (), until)?;
            return Ok(bytes.len());
        }
        let mut outcome = Ok(0);
        let mut visit = |rank, given: &[u8]| {
            if rank != root {
                return;
            }
            let (len, limit) = (given.len(), bytes.len());
            outcome = match bytes.get_mut(..len) {
                Some(place) => {
                    place.copy_from_slice(given);
                    Ok(len)
                }
                None => Err(BootstrapError::TooLong { rank, len, limit }),
            };
        };
        self.round(round, &[], &mut visit, until)?;
        outcome
    }

    /// Waits until every rank has come here.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use core::sync::atomic::{AtomicU32, Ordering};
    /// use std::time::{Duration, Instant};
    ///
    /// use loom_group::bootstrap::{Board, Bootstrap, InProcess};
    ///
    /// let (board, ready) = (Board::open(3, 16).expect("there is memory"), AtomicU32::new(0));
    /// std::thread::scope(|scope| {
    ///     for rank in 0..3 {
    ///         let (board, ready) = (&board, &ready);
    ///         scope.spawn(move || {
    ///             let mut until = Instant::now() + Duration::from_secs(5);
    ///             let mut ranks = InProcess::join(board, rank).expect("the seat is free");
    ///             // Each rank posts its receives here, for example.
    ///             ready.fetch_add(1, Ordering::Relaxed);
    ///             ranks.barrier(&mut until).expect("all ranks come");
    ///             assert_eq!(ready.load(Ordering::Relaxed), 3);
    ///         });
    ///     }
    /// });
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`round`](Self::round).
    fn barrier(&mut self, until: &mut dyn Deadline) -> Result<(), BootstrapError> {
        self.round(Round::Barrier, &[], &mut |_, _| (), until)
    }
}

/// The same bootstrap, lent.
impl<B: Bootstrap + ?Sized> Bootstrap for &mut B {
    fn rank(&self) -> u32 {
        (**self).rank()
    }

    fn size(&self) -> u32 {
        (**self).size()
    }

    fn round(
        &mut self,
        round: Round,
        mine: &[u8],
        visit: &mut dyn FnMut(u32, &[u8]),
        until: &mut dyn Deadline,
    ) -> Result<(), BootstrapError> {
        (**self).round(round, mine, visit, until)
    }
}

/// Checks the size of a bootstrap, and that it has this rank.
fn check_rank(rank: u32, size: u32) -> Result<(), JoinError> {
    match size {
        0 => Err(JoinError::Size { size }),
        _ if size > MAX_SIZE => Err(JoinError::Size { size }),
        _ if rank >= size => Err(JoinError::UnknownRank { rank, size }),
        _ => Ok(()),
    }
}

/// The place of a rank in a list of all ranks.
fn place(rank: u32) -> usize {
    crate::PeerIndex(rank).place()
}

/// Waits a little between two looks, longer and longer up to two milliseconds: what other processes do cannot wake this thread.
#[cfg(feature = "std")]
#[derive(Debug, Default)]
struct Pause(u32);

#[cfg(feature = "std")]
impl Pause {
    /// After this many looks the thread sleeps.
    const YIELDS: u32 = 16;

    /// Lets other threads work.
    fn wait(&mut self) {
        use core::time::Duration;
        match self.0.checked_sub(Self::YIELDS) {
            None => std::thread::yield_now(),
            Some(sleeps) => {
                std::thread::sleep(Duration::from_micros(50 << sleeps.min(5)).min(Duration::from_millis(2)))
            }
        }
        self.0 = self.0.saturating_add(1);
    }

    /// Something has happened: the next waits are short.
    fn reset(&mut self) {
        self.0 = 0;
    }
}
