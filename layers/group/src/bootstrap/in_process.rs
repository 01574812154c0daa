//! [`InProcess`]: ranks that are threads of one process.
//!
//! # Locks are free
//! A rank writes its bytes after every rank has published the preceding round, and has thus read
//! those of two rounds before, which use the same memory.

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use allocator_api2::alloc::Allocator;
#[cfg(feature = "std")]
use allocator_api2::alloc::Global;
use loom_core::deadline::Deadline;
use loom_core::error::OpenError;
use loom_core::storage::Array;

use super::{Bootstrap, BootstrapError, Round, check_rank, place};

/// Memory over which threads exchange bytes.
///
/// The caller provides it ([`over`](Board::over)), or an [allocator](AllocatedBoard::open_in).
/// `S` is a list of [`Seat`]s.
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use loom_group::bootstrap::{Board, Bootstrap, InProcess};
///
/// let board = Board::open(2, 16)?;
/// std::thread::scope(|scope| {
///     for rank in 0..2 {
///         let mut ranks = InProcess::join(&board, rank).unwrap();
///         scope.spawn(move || {
///             let mut until = Instant::now() + Duration::from_secs(5);
///             ranks.barrier(&mut until).unwrap();
///         });
///     }
/// });
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct Board<S> {
    seats: S,
    size: u32,
    limit: usize,
}

/// Board in memory of an allocator.
pub type AllocatedBoard<A> = Board<Array<Seat<Array<u8, A>>, A>>;

/// Seat of a rank on a [`Board`].
pub struct Seat<B> {
    taken: AtomicBool,
    gifts: [Gift<B>; 2],
}

impl Seat<&mut [u8]> {
    /// Seat for [`Board::over`]: `[const { Seat::new() }; 8]`.
    #[must_use]
    pub const fn new() -> Self {
        Seat { taken: AtomicBool::new(false), gifts: [Gift::of(&mut []), Gift::of(&mut [])] }
    }
}

impl Default for Seat<&mut [u8]> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'m, 'b> Board<&'m [Seat<&'b mut [u8]>]> {
    /// Board in the caller's memory, with a rank for each seat. A round carries up to
    /// `memory.len() / (2 * seats.len())` bytes of each rank.
    ///
    /// ```
    /// use loom_group::bootstrap::{Board, Seat};
    ///
    /// let mut memory = [0; 2 * 4 * 100];
    /// let mut seats = [const { Seat::new() }; 4];
    /// let board = Board::over(&mut seats, &mut memory)?;
    /// assert_eq!((board.size(), board.limit()), (4, 100));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`BootstrapError::Size`]: no seats, or more than [`MAX_SIZE`](super::MAX_SIZE).
    pub fn over(seats: &'m mut [Seat<&'b mut [u8]>], memory: &'b mut [u8]) -> Result<Self, BootstrapError> {
        let size = u32::try_from(seats.len()).unwrap_or(u32::MAX);
        check_rank(0, size)?;
        let limit = memory.len().checked_div(seats.len().saturating_mul(2)).unwrap_or(0);
        let mut rest = memory;
        let mut chunk = || rest.split_off_mut(..limit).unwrap_or_default();
        for seat in seats.iter_mut() {
            *seat = Seat { taken: AtomicBool::new(false), gifts: [Gift::of(chunk()), Gift::of(chunk())] };
        }
        Ok(Board { seats, size, limit })
    }
}

#[cfg(feature = "std")]
impl AllocatedBoard<Global> {
    /// [`open_in`](Self::open_in) with the global allocator.
    pub fn open(size: u32, limit: usize) -> Result<Self, BootstrapError> {
        Self::open_in(size, limit, Global)
    }
}

impl<A: Allocator + Clone> AllocatedBoard<A> {
    /// Allocates a board for `size` ranks with up to `limit` bytes in a round, from `alloc`.
    ///
    /// # Errors
    ///
    /// [`BootstrapError::Size`], [`BootstrapError::OutOfMemory`].
    pub fn open_in(size: u32, limit: usize, alloc: A) -> Result<Self, BootstrapError> {
        check_rank(0, size)?;
        let gift = || Array::new_in(limit, alloc.clone(), |_| 0).map(Gift::of);
        let seat = |_| Ok(Seat { taken: AtomicBool::new(false), gifts: [gift()?, gift()?] });
        let no_memory = |_: OpenError| BootstrapError::OutOfMemory;
        let seats = Array::try_new_in(place(size), alloc.clone(), seat).map_err(no_memory)?;
        Ok(Board { seats, size, limit })
    }
}

impl<S> Board<S> {
    /// Number of ranks.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// Maximum number of bytes of a rank in a round.
    #[must_use]
    pub const fn limit(&self) -> usize {
        self.limit
    }
}

/// Rank of a [`Board`]. `P` is a reference to the board, or an `Arc` of it.
///
/// ```
/// use core::time::Duration;
/// use std::sync::Arc;
/// use std::time::Instant;
///
/// use loom_group::bootstrap::{Board, Bootstrap, BootstrapError, InProcess};
///
/// // With an `Arc` of the board, a rank can move to a thread that outlives this one.
/// let board = Arc::new(Board::open(2, 16).expect("there is memory"));
/// let mut first = InProcess::join(Arc::clone(&board), 0).expect("the seat is free");
/// let waits = std::thread::spawn(move || first.barrier(&mut (Instant::now() + Duration::from_millis(2))));
/// // The other rank does not come.
/// assert_eq!(waits.join().expect("no panic"), Err(BootstrapError::Missing { rank: 1 }));
/// ```
pub struct InProcess<P> {
    board: P,
    rank: u32,
    size: u32,
    /// May wrap: ranks in step are at most one round apart.
    number: u32,
    ended: bool,
}

impl<B, S, P> InProcess<P>
where
    B: DerefMut<Target = [u8]>,
    S: Deref<Target = [Seat<B>]>,
    P: Deref<Target = Board<S>>,
{
    /// Joins as `rank`. A rank can be joined once.
    ///
    /// # Errors
    /// [`BootstrapError::UnknownRank`], [`BootstrapError::Taken`].
    pub fn join(board: P, rank: u32) -> Result<Self, BootstrapError> {
        let size = board.size;
        let seat = board.seats.get(place(rank)).ok_or(BootstrapError::UnknownRank { rank, size })?;
        if seat.taken.swap(true, Ordering::Relaxed) {
            return Err(BootstrapError::Taken { rank });
        }
        Ok(InProcess { board, rank, size, number: 0, ended: false })
    }

    fn play(
        &self,
        (number, round): (u32, Round),
        mine: &[u8],
        visit: &mut dyn FnMut(u32, &[u8]),
        until: &mut dyn Deadline,
    ) -> Result<(), BootstrapError> {
        let half = usize::from(number % 2 == 1);
        let gifts = (0_u32..).zip(self.board.seats.iter().filter_map(|seat| seat.gifts.get(half)));
        for (_, own) in gifts.clone().filter(|&(rank, _)| rank == self.rank) {
            {
                let Some(mut given) = own.given.try_write() else {
                    return Err(BootstrapError::OutOfStep { rank: self.rank });
                };
                (given.round, given.len) = (round, mine.len());
                if let Some(place) = given.memory.get_mut(..mine.len()) {
                    place.copy_from_slice(mine);
                }
            }
            own.number.store(number, Ordering::Release);
        }
        for (rank, gift) in gifts {
            while gift.number.load(Ordering::Acquire) != number {
                if until.passed() {
                    return Err(BootstrapError::Missing { rank });
                }
                #[cfg(feature = "std")]
                std::thread::yield_now();
                #[cfg(not(feature = "std"))]
                core::hint::spin_loop();
            }
            let Some(given) = gift.given.try_read().filter(|given| given.round == round) else {
                return Err(BootstrapError::OutOfStep { rank });
            };
            visit(rank, given.memory.get(..given.len).unwrap_or_default());
        }
        Ok(())
    }
}

impl<B, S, P> Bootstrap for InProcess<P>
where
    B: DerefMut<Target = [u8]>,
    S: Deref<Target = [Seat<B>]>,
    P: Deref<Target = Board<S>>,
{
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
        let (len, limit) = (mine.len(), self.board.limit);
        if len > limit {
            return Err(BootstrapError::TooLong { rank: self.rank, len, limit });
        }
        self.number = self.number.wrapping_add(1);
        self.ended = true;
        self.play((self.number, round), mine, visit, until)?;
        self.ended = false;
        Ok(())
    }
}

impl<S> fmt::Debug for Board<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Board").field("size", &self.size).field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl<P> fmt::Debug for InProcess<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InProcess").field("rank", &self.rank).field("size", &self.size).finish_non_exhaustive()
    }
}

impl<B> fmt::Debug for Seat<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seat").field("taken", &self.taken).finish_non_exhaustive()
    }
}

struct Gift<B> {
    /// Stored with release after the bytes, loaded with acquire before they are read.
    number: AtomicU32,
    given: spin::RwLock<Given<B>>,
}

struct Given<B> {
    round: Round,
    len: usize,
    memory: B,
}

impl<B> Gift<B> {
    const fn of(memory: B) -> Self {
        let given = Given { round: Round::Barrier, len: 0, memory };
        Gift { number: AtomicU32::new(0), given: spin::RwLock::new(given) }
    }
}
