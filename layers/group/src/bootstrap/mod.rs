//! Exchange of the first bytes between peers.
//!
//! A [`Bootstrap`] connects `size` ranks, counted from 0. Waits have deadlines, and errors name the
//! lowest missing rank.
//!
//! | bootstrap | connects |
//! |---|---|
//! | [`InProcess`] | threads, over a [`Board`] of memory, without `std` |
//! | `Tcp` | processes that reach an address of rank 0 (feature `std`) |
//! | `Directory` | processes that share a file system (feature `std`) |
//! | `Pmi` | processes of an MPI launcher, over PMI-2 (feature `pmi`) |
//!
//! For others, implement [`Bootstrap::round`].
//!
//! # Trust
//! Received bytes cause no panic and no unbounded allocation. Ranks are not authenticated: a
//! program that reaches the address of `Tcp` with its job number can take the place of a rank.

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
pub use self::error::{BootstrapError, LauncherFault, Mismatch};
pub use self::in_process::AllocatedBoard;
pub use self::in_process::{Board, InProcess, Seat};
#[cfg(all(feature = "pmi", unix))]
pub use self::pmi::Pmi;
pub use self::slots::Slots;
#[cfg(feature = "std")]
pub use self::tcp::{Tcp, TcpAttr};

/// Maximum number of ranks.
pub const MAX_SIZE: u32 = 1 << 20;

/// Kind of a round, equal on all ranks.
///
/// ```
/// use loom_group::bootstrap::Round;
///
/// /// Returns `true` if the rank contributes bytes to the round.
/// fn contributes(rank: u32, round: Round) -> bool {
///     match round {
///         Round::AllGather => true,
///         Round::Broadcast { root } => rank == root,
///         Round::Barrier => false,
///     }
/// }
///
/// assert!(contributes(1, Round::Broadcast { root: 1 }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// Every rank contributes bytes.
    AllGather,
    /// One rank contributes bytes.
    Broadcast {
        /// Rank.
        root: u32,
    },
    /// No rank contributes bytes.
    Barrier,
}

#[cfg(feature = "std")]
impl Round {
    /// Wire code: roots are below [`MAX_SIZE`], other kinds above.
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
/// 1. All ranks make the same calls in the same order.
/// 2. A round returns after the bytes of every rank have arrived, so it is also a barrier.
/// 3. After [`Missing`](BootstrapError::Missing), [`OutOfStep`](BootstrapError::OutOfStep),
///    [`Malformed`](BootstrapError::Malformed), [`Launcher`](BootstrapError::Launcher) or
///    [`System`](BootstrapError::System) later rounds return [`Ended`](BootstrapError::Ended).
///    Other errors leave the ranks in step, or precede any effect.
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
    /// Rank of this side, below [`size`](Self::size).
    fn rank(&self) -> u32;

    /// Number of ranks.
    fn size(&self) -> u32;

    /// Runs a round: distributes `mine`, and calls `visit` with each rank, including this one, and
    /// its bytes, in ascending order, perhaps for some ranks before a failure. `visit` should only
    /// copy them, and may run rounds of other ranks of the process.
    ///
    /// # Errors
    /// [`BootstrapError::Missing`], [`BootstrapError::OutOfStep`], [`BootstrapError::Launcher`],
    /// [`BootstrapError::Malformed`], [`BootstrapError::Ended`], [`BootstrapError::System`], and
    /// [`BootstrapError::TooLong`] if `mine` exceeds the limit, before any effect.
    fn round(
        &mut self,
        round: Round,
        mine: &[u8],
        visit: &mut dyn FnMut(u32, &[u8]),
        until: &mut dyn Deadline,
    ) -> Result<(), BootstrapError>;

    /// Distributes `mine`, and stores the bytes of each rank in its slot of `all`. Lengths may
    /// differ between ranks.
    ///
    /// ```
    /// use loom_group::bootstrap::{Bootstrap, Slots};
    /// # use loom_group::bootstrap::{Board, InProcess};
    /// # use std::time::{Duration, Instant};
    /// # let board = Board::open(3, 16)?;
    /// # std::thread::scope(|scope| for rank in 0..3 {
    /// #     let mut ranks = InProcess::join(&board, rank).expect("a free seat");
    /// #     let mut until = Instant::now() + Duration::from_secs(5);
    /// #     scope.spawn(move || {
    ///
    /// // On each of three ranks. Rank 0 contributes no bytes.
    /// let mine = vec![7; rank as usize];
    /// let mut memory = [0; Slots::memory_len(3, 16)];
    /// let mut all = Slots::new(&mut memory, 3);
    /// ranks.all_gather(&mine, &mut all, &mut until).expect("three ranks");
    /// assert_eq!(all.iter().collect::<Vec<_>>(), [&[][..], &[7], &[7, 7]]);
    /// #     });
    /// # });
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`round`](Self::round), and
    ///
    /// - [`BootstrapError::SlotCount`], before any effect.
    /// - [`BootstrapError::TooLong`]: the lowest rank with bytes that do not fit into their slot,
    ///   which is left empty. The others are filled, and the ranks stay in step.
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

    /// Copies the `bytes` of the rank `root` to the start of `bytes` on all others. Returns their
    /// number.
    ///
    /// ```
    /// use loom_group::bootstrap::Bootstrap;
    /// # use loom_group::bootstrap::{Board, InProcess};
    /// # use std::time::{Duration, Instant};
    /// # let board = Board::open(2, 16)?;
    /// # std::thread::scope(|scope| for rank in 0..2 {
    /// #     let mut ranks = InProcess::join(&board, rank).expect("a free seat");
    /// #     let mut until = Instant::now() + Duration::from_secs(5);
    /// #     scope.spawn(move || {
    ///
    /// // On each of two ranks:
    /// let mut bytes = if rank == 1 { *b"hello" } else { [0; 5] };
    /// assert_eq!(ranks.broadcast(1, &mut bytes, &mut until), Ok(5));
    /// assert_eq!(&bytes, b"hello");
    /// #     });
    /// # });
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`round`](Self::round), and
    ///
    /// - [`BootstrapError::UnknownRank`] for `root`, before any effect.
    /// - [`BootstrapError::TooLong`]: this rank's `bytes` are shorter than the root's, and
    ///   unchanged. The ranks stay in step.
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

    /// Waits until every rank has made this call.
    ///
    /// ```
    /// use core::sync::atomic::{AtomicU32, Ordering};
    ///
    /// use loom_group::bootstrap::Bootstrap;
    /// # use loom_group::bootstrap::{Board, InProcess};
    /// # use std::time::{Duration, Instant};
    /// # let (board, ready) = (Board::open(3, 16)?, &AtomicU32::new(0));
    /// # std::thread::scope(|scope| for rank in 0..3 {
    /// #     let mut ranks = InProcess::join(&board, rank).expect("a free seat");
    /// #     let mut until = Instant::now() + Duration::from_secs(5);
    /// #     scope.spawn(move || {
    ///
    /// // On each of three ranks, for example after it has posted its receives:
    /// ready.fetch_add(1, Ordering::Relaxed);
    /// ranks.barrier(&mut until).expect("three ranks");
    /// assert_eq!(ready.load(Ordering::Relaxed), 3);
    /// #     });
    /// # });
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// See [`round`](Self::round).
    fn barrier(&mut self, until: &mut dyn Deadline) -> Result<(), BootstrapError> {
        self.round(Round::Barrier, &[], &mut |_, _| (), until)
    }
}

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

fn check_rank(rank: u32, size: u32) -> Result<(), BootstrapError> {
    match size {
        0 => Err(BootstrapError::Size { size }),
        _ if size > MAX_SIZE => Err(BootstrapError::Size { size }),
        _ if rank >= size => Err(BootstrapError::UnknownRank { rank, size }),
        _ => Ok(()),
    }
}

fn place(rank: u32) -> usize {
    crate::PeerIndex(rank).place()
}

/// Wait between polls, up to 2 ms.
#[cfg(feature = "std")]
#[derive(Debug, Default)]
struct Pause(u32);

#[cfg(feature = "std")]
impl Pause {
    const YIELDS: u32 = 16;

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

    fn reset(&mut self) {
        self.0 = 0;
    }
}
