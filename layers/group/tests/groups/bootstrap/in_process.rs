use std::alloc::Layout;
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use loom_core::Spins;
use loom_core::allocator_api2::alloc::{AllocError, Allocator, Global};
use loom_group::bootstrap::{Board, Bootstrap, BootstrapError, InProcess, MAX_SIZE, Round, Seat, Slots};

use super::{LIMIT, SIZES, Story, another_round_is_out_of_step, each, gift, idle_rank_is_named, shortly, soon};

#[test]
fn ranks_exchange_over_an_allocated_board() {
    for size in SIZES {
        let (board, story) = (Arc::new(Board::open(size, LIMIT).unwrap()), Story::new(size));
        each(0..size, |rank| story.play(&mut InProcess::join(Arc::clone(&board), rank).unwrap()));
    }
}

#[test]
fn ranks_exchange_over_memory_of_the_caller() {
    let mut memory = [0; 2 * 8 * LIMIT + 5];
    let mut seats = [const { Seat::new() }; 8];
    let board = Board::over(&mut seats, &mut memory).unwrap();
    assert_eq!((board.size(), board.limit()), (8, LIMIT));
    let story = Story::new(8);
    each(0..8, |rank| story.play(&mut InProcess::join(&board, rank).unwrap()));
}

#[test]
fn ranks_of_one_thread_play_inside_each_others_visitors() {
    let board = Board::open(3, LIMIT).unwrap();
    let mut ranks = [0, 1, 2].map(|rank| InProcess::join(&board, rank).unwrap());
    let [first, second, third] = &mut ranks;
    for turn in 0..4 {
        // Each rank begins its round within the visitor of the rank before.
        let mut seen = Vec::new();
        let inner = &mut |_, _: &[u8]| ();
        let mut nested = |rank, bytes: &[u8]| {
            seen.push((rank, bytes.to_vec()));
            if rank == 0 {
                let mut most_nested = |rank, bytes: &[u8]| {
                    assert_eq!(bytes, gift(rank, turn));
                    if rank == 0 {
                        third.round(Round::AllGather, &gift(2, turn), inner, &mut shortly()).unwrap();
                    }
                };
                second.round(Round::AllGather, &gift(1, turn), &mut most_nested, &mut shortly()).unwrap();
            }
        };
        first.round(Round::AllGather, &gift(0, turn), &mut nested, &mut shortly()).unwrap();
        assert_eq!(seen, [0, 1, 2].map(|rank| (rank, gift(rank, turn))));
    }
}

#[test]
fn a_rank_keeps_its_deadline_while_the_visitor_of_another_takes_its_time() {
    let board = Board::open(2, LIMIT).unwrap();
    let (visiting, is_visiting) = mpsc::channel();
    let (over, is_over) = mpsc::channel::<()>();
    thread::scope(|threads| {
        let board = &board;
        threads.spawn(move || {
            let mut slow = |rank, bytes: &[u8]| {
                assert_eq!(bytes, gift(rank, 1));
                visiting.send(()).unwrap();
                let _: Result<(), _> = is_over.recv();
            };
            let mut ranks = InProcess::join(board, 0).unwrap();
            ranks.round(Round::AllGather, &gift(0, 1), &mut slow, &mut soon()).unwrap();
        });
        let mut ranks = InProcess::join(board, 1).unwrap();
        is_visiting.recv().unwrap();
        let mut memory = [0; Slots::memory_len(2, LIMIT)];
        let mut all = Slots::new(&mut memory, 2);
        ranks.all_gather(&gift(1, 1), &mut all, &mut shortly()).unwrap();
        assert_eq!((all.get(0), all.get(1)), (Some(&gift(0, 1)[..]), Some(&gift(1, 1)[..])));
        let begin = Instant::now();
        let until = &mut (begin + Duration::from_millis(10));
        assert_eq!(ranks.barrier(until), Err(BootstrapError::Missing { rank: 0 }));
        assert!(begin.elapsed() < Duration::from_millis(500), "{:?}", begin.elapsed());
        drop(over);
    });
}

#[test]
fn a_rank_that_does_not_play_is_named() {
    for idle in [0, 2, 3] {
        let board = Board::open(4, LIMIT).unwrap();
        idle_rank_is_named(4, idle, |rank| InProcess::join(&board, rank).unwrap());
    }
}

#[test]
fn the_lowest_rank_that_did_not_join_is_named() {
    let board = Board::open(5, LIMIT).unwrap();
    let mut ranks = InProcess::join(&board, 0).unwrap();
    assert_eq!(ranks.barrier(&mut Spins(10)), Err(BootstrapError::Missing { rank: 1 }));
    assert_eq!(ranks.barrier(&mut Spins(10)), Err(BootstrapError::Ended));
}

#[test]
fn a_rank_in_another_round_is_out_of_step() {
    let board = Board::open(3, LIMIT).unwrap();
    another_round_is_out_of_step(3, |rank| InProcess::join(&board, rank).unwrap());
}

#[test]
fn a_rank_joins_once() {
    let board = Board::open(2, LIMIT).unwrap();
    assert_eq!(InProcess::join(&board, 1).unwrap().rank(), 1);
    assert_eq!(InProcess::join(&board, 1).err(), Some(BootstrapError::Taken { rank: 1 }));
    assert_eq!(InProcess::join(&board, 2).err(), Some(BootstrapError::UnknownRank { rank: 2, size: 2 }));
}

struct Few {
    left: Cell<usize>,
    open: Cell<usize>,
}

// SAFETY: every block comes from `Global`, and any copy of `Global` frees it.
unsafe impl Allocator for Few {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.left.set(self.left.get().checked_sub(1).ok_or(AllocError)?);
        self.open.set(self.open.get() + 1);
        Global.allocate(layout)
    }

    unsafe fn deallocate(&self, ptr: NonNull<u8>, layout: Layout) {
        self.open.set(self.open.get() - 1);
        // SAFETY: `ptr` comes from `allocate`, and the caller keeps the contract of `deallocate`.
        unsafe { Global.deallocate(ptr, layout) };
    }
}

#[test]
fn boards_are_refused_without_memory_or_ranks() {
    for size in [0, MAX_SIZE + 1] {
        assert_eq!(Board::open(size, 1).err(), Some(BootstrapError::Size { size }));
    }
    assert_eq!(Board::over(&mut [], &mut []).err(), Some(BootstrapError::Size { size: 0 }));
    assert_eq!(Board::open(1, usize::MAX).err(), Some(BootstrapError::OutOfMemory));
    for left in 0..8 {
        let few = Few { left: Cell::new(left), open: Cell::new(0) };
        let board = Board::open_in(3, LIMIT, &few);
        assert_eq!(board.as_ref().err(), (left < 7).then_some(&BootstrapError::OutOfMemory), "{left} blocks");
        drop(board);
        assert_eq!(few.open.get(), 0, "{left} blocks");
    }
}

#[test]
fn an_open_board_allocates_no_memory() {
    let few = Few { left: Cell::new(3), open: Cell::new(0) };
    let board = Board::open_in(1, LIMIT, &few).unwrap();
    let mut ranks = InProcess::join(&board, 0).unwrap();
    let mut memory = [0; Slots::memory_len(1, LIMIT)];
    let mut all = Slots::new(&mut memory, 1);
    for len in 0..=LIMIT {
        ranks.all_gather(&[3; LIMIT][..len], &mut all, &mut Spins(0)).unwrap();
        assert_eq!(all.get(0), Some(&[3; LIMIT][..len]));
    }
    assert_eq!((few.left.get(), few.open.get()), (0, 3));
}
