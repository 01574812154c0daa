//! [`InProcess`]: ranks that are threads of one process.
//!
//! # No rank waits for a lock
//!
//! A rank writes its gift of a round when every rank has published the round before. By then all of them have read the gift two rounds
//! before, which lies in the same memory. Readers share a gift, so that a visitor holds up no other rank, on its own thread or another.
//! The lock of a gift is therefore free whenever a rank tries it. If a program's reference to the board leads to different boards from
//! call to call, the lock may be taken, and the round fails.

use core::fmt;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use allocator_api2::alloc::Allocator;
#[cfg(feature = "std")]
use allocator_api2::alloc::Global;
use loom_core::deadline::Deadline;
use loom_core::error::OpenError;
use loom_core::storage::Array;

use super::{Bootstrap, BootstrapError, JoinError, Round, check_rank, place};

/// The memory over which threads of one process exchange bytes.
///
/// It is the caller's ([`over`](Board::over)), or allocated when the board opens ([`open_in`](AllocatedBoard::open_in)). Nothing is allocated later. `S` is
/// a list of [`Seat`]s.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use std::time::{Duration, Instant};
/// use loom_group::bootstrap::{Board, Bootstrap, InProcess, Slots};
///
/// let board = Board::open(2, 16).unwrap();
/// std::thread::scope(|scope| {
///     for rank in 0..2 {
///         let board = &board;
///         scope.spawn(move || {
///             let mut until = Instant::now() + Duration::from_secs(5);
///             let mut ranks = InProcess::join(board, rank).unwrap();
///             let mut memory = [0; Slots::memory_len(2, 16)];
///             let mut all = Slots::new(&mut memory, 2);
///             ranks.all_gather(&[rank as u8 + 1], &mut all, &mut until).unwrap();
///             assert_eq!(all.iter().collect::<Vec<_>>(), [[1], [2]]);
///         });
///     }
/// });
/// # }
/// ```
pub struct Board<S> {
    seats: S,
    size: u32,
    limit: usize,
}

/// A board with memory of an allocator.
pub type AllocatedBoard<A> = Board<Array<Seat<Array<u8, A>>, A>>;

/// The place of one rank on a [`Board`].
pub struct Seat<B> {
    /// Whether the rank has joined.
    taken: AtomicBool,
    /// For even rounds, and for odd ones. A rank that fills one of them again has completed the round between, and so has every
    /// rank come to that round: all of them have read what was there before.
    gifts: [Gift<B>; 2],
}

/// What a rank gives in a round.
struct Gift<B> {
    /// The number of the round, stored after the bytes: a rank that loads it finds them.
    number: AtomicU32,
    given: spin::RwLock<Given<B>>,
}

struct Given<B> {
    round: Round,
    /// How much of the memory it is.
    len: usize,
    memory: B,
}

impl<B> Gift<B> {
    const fn of(memory: B) -> Self {
        let given = Given { round: Round::Barrier, len: 0, memory };
        Gift { number: AtomicU32::new(0), given: spin::RwLock::new(given) }
    }
}

impl Seat<&mut [u8]> {
    /// A seat for [`Board::over`]. For a list: `[const { Seat::new() }; 8]`.
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
    /// A board in the caller's memory, with one rank for each seat. Each rank gives up to `memory.len() / (2 * seats.len())` bytes
    /// in a round.
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
    /// [`JoinError::Size`]: there are no seats, or more than [`MAX_SIZE`](super::MAX_SIZE).
    pub fn over(seats: &'m mut [Seat<&'b mut [u8]>], memory: &'b mut [u8]) -> Result<Self, JoinError> {
        let size = u32::try_from(seats.len()).unwrap_or(u32::MAX);
        check_rank(0, size)?;
        let limit = memory.len().checked_div(seats.len().saturating_mul(2)).unwrap_or(0);
        let mut rest = memory;
        // There is as much memory as they take.
        let mut chunk = || rest.split_off_mut(..limit).unwrap_or_default();
        for seat in seats.iter_mut() {
            *seat = Seat { taken: AtomicBool::new(false), gifts: [Gift::of(chunk()), Gift::of(chunk())] };
        }
        Ok(Board { seats, size, limit })
    }
}

#[cfg(feature = "std")]
impl AllocatedBoard<Global> {
    /// A board for `size` ranks, which give up to `limit` bytes in a round each.
    ///
    /// # Errors
    ///
    /// - [`JoinError::Size`]: `size` is zero, or above [`MAX_SIZE`](super::MAX_SIZE).
    /// - [`JoinError::OutOfMemory`]: there is no memory for the board.
    pub fn open(size: u32, limit: usize) -> Result<Self, JoinError> {
        Self::open_in(size, limit, Global)
    }
}

impl<A: Allocator + Clone> AllocatedBoard<A> {
    /// A board for `size` ranks, which give up to `limit` bytes in a round each, in memory of `alloc`.
    ///
    /// # Errors
    ///
    /// - [`JoinError::Size`]: `size` is zero, or above [`MAX_SIZE`](super::MAX_SIZE).
    /// - [`JoinError::OutOfMemory`]: the allocator has no memory for the board.
    pub fn open_in(size: u32, limit: usize, alloc: A) -> Result<Self, JoinError> {
        check_rank(0, size)?;
        let gift = || Array::new_in(limit, alloc.clone(), |_| 0).map(Gift::of);
        let seat = |_| Ok(Seat { taken: AtomicBool::new(false), gifts: [gift()?, gift()?] });
        let no_memory = |_: OpenError| JoinError::OutOfMemory;
        let seats = Array::try_new_in(place(size), alloc.clone(), seat).map_err(no_memory)?;
        Ok(Board { seats, size, limit })
    }
}

impl<S> Board<S> {
    /// The number of ranks.
    #[must_use]
    pub const fn size(&self) -> u32 {
        self.size
    }

    /// The most bytes that a rank gives in a round.
    #[must_use]
    pub const fn limit(&self) -> usize {
        self.limit
    }
}

/// A rank of a [`Board`]. `P` is a reference to the board, or an `Arc` of it.
///
/// ```
/// # #[cfg(feature = "std")] {
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
/// # }
/// ```
pub struct InProcess<P> {
    board: P,
    rank: u32,
    size: u32,
    /// The number of the last round. Ranks in step are at most one round apart, so that it may wrap.
    number: u32,
    ended: bool,
}

impl<B, S, P> InProcess<P>
where
    B: DerefMut<Target = [u8]>,
    S: Deref<Target = [Seat<B>]>,
    P: Deref<Target = Board<S>>,
{
    /// Joins as this rank. A rank can be joined once: another peer could not tell at which round the ranks are.
    ///
    /// # Errors
    ///
    /// - [`JoinError::UnknownRank`]: the board has no such rank.
    /// - [`JoinError::Taken`]: the rank was joined before.
    pub fn join(board: P, rank: u32) -> Result<Self, JoinError> {
        let size = board.size;
        let seat = board.seats.get(place(rank)).ok_or(JoinError::UnknownRank { rank, size })?;
        if seat.taken.swap(true, Ordering::Relaxed) {
            return Err(JoinError::Taken { rank });
        }
        Ok(InProcess { board, rank, size, number: 0, ended: false })
    }

    /// Plays the round with this number.
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
                // The caller has checked the length.
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

    /// Looks at `until` between two looks at the board. With the feature `std` the thread yields between them.
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
        // A visitor that panics leaves the ranks out of step, too.
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
