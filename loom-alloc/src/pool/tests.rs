use std::collections::HashSet;
use std::thread;
use std::vec::Vec;

use allocator_api2::alloc::System;
use allocator_api2::boxed::Box;

use super::*;
use crate::budget::Budget;

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

fn attr(size: usize, align: usize, count: usize) -> PoolAttr {
    PoolAttr { block: layout(size, align), count }
}

fn address(block: NonNull<[u8]>) -> usize {
    block.cast::<u8>().addr().get()
}

fn take_all(pool: impl Allocator, one: Layout) -> Vec<NonNull<[u8]>> {
    let blocks: Vec<_> = core::iter::from_fn(|| pool.allocate(one).ok()).collect();
    let mut begins: Vec<_> = blocks.iter().map(|block| address(*block)).collect();
    begins.sort_unstable();
    assert!(begins.iter().all(|begin| begin % one.align() == 0), "{begins:?}");
    assert!(begins.windows(2).all(|pair| pair[0] + one.size() <= pair[1]), "{begins:?}");
    for block in &blocks {
        assert!(block.len() >= one.size());
        // SAFETY: handed out with this length.
        unsafe { block.cast::<u8>().write_bytes(0xa5, block.len()) };
    }
    blocks
}

fn hands_out_each_block_once<S: Sharing>() {
    for (size, align, count) in [(1, 1, 7), (3, 1, 5), (24, 8, 10), (100, 64, 3), (64, 4096, 2), (5, 4, 0)] {
        let budget = Budget::new(System, usize::MAX);
        let pool = BlockPool::<_, S>::new_in(attr(size, align, count), &budget).unwrap();
        assert_eq!(budget.used(), attr(size, align, count).layout().unwrap().size());
        assert_eq!(
            (pool.capacity(), pool.block_align(), pool.block_size()),
            (count, align, size.next_multiple_of(align))
        );
        let one = layout(pool.block_size(), align);
        for _ in 0..3 {
            let blocks = take_all(&pool, one);
            assert_eq!(blocks.len(), count);
            assert!(blocks.iter().all(|block| pool.owns(block.cast(), one)));
            for block in blocks {
                // SAFETY: allocated with this layout.
                unsafe { (&pool).deallocate(block.cast(), one) };
            }
        }
        drop(pool);
        assert_eq!((budget.used(), budget.blocks()), (0, 0));
    }
}

#[test]
fn each_block_is_handed_out_once() {
    hands_out_each_block_once::<Owner>();
    hands_out_each_block_once::<Shared>();
}

#[test]
fn pools_that_cannot_be_are_errors() {
    let empty = Layout::from_size_align(0, 8).unwrap();
    for (wrong, error) in [
        (PoolAttr { block: empty, count: 4 }, OpenError::Size),
        (attr(8, 8, u32::MAX as usize), OpenError::Size),
        (attr(isize::MAX as usize / 2, 1, 3), OpenError::Size),
        (attr(1 << 62, 1, 1 << 3), OpenError::Size),
        (attr(128, 8, 8), OpenError::OutOfMemory),
    ] {
        assert_eq!(wrong.layout().is_none(), error == OpenError::Size, "{wrong:?}");
        assert_eq!(Pool::new_in(wrong, &Budget::new(System, 1024)).err(), Some(error), "{wrong:?}");
        assert_eq!(SharedPool::new_in(wrong, &Budget::new(System, 1024)).err(), Some(error), "{wrong:?}");
    }
    let fits = attr(128, 8, 8).layout().unwrap().size();
    assert!(Pool::new_in(attr(128, 8, 8), &Budget::new(System, fits - 1)).is_err());
    assert!(Pool::new_in(attr(128, 8, 8), &Budget::new(System, fits)).is_ok());
}

#[test]
fn layout_that_does_not_fit_a_block_fails_and_takes_no_block() {
    let pool = Pool::new_in(attr(64, 16, 2), System).unwrap();
    for wrong in [layout(65, 1), layout(8, 32), layout(isize::MAX as usize - 8, 1)] {
        assert!((&pool).allocate(wrong).is_err(), "{wrong:?}");
        assert_eq!(pool.taken(), 0);
    }
    assert_eq!((&pool).allocate(layout(1, 1)).unwrap().len(), 64, "all of the block");
}

fn grows_and_shrinks_in_place(pool: impl Allocator) {
    let block = pool.allocate_zeroed(layout(8, 8)).unwrap();
    // SAFETY: allocated with this layout.
    let grown = unsafe { pool.grow_zeroed(block.cast(), layout(8, 8), layout(64, 16)) }.unwrap();
    assert_eq!(address(grown), address(block));
    // SAFETY: zeroed.
    assert_eq!(unsafe { grown.as_ref() }, [0; 64]);
    // SAFETY: grown to this layout.
    assert!(unsafe { pool.grow(block.cast(), layout(64, 16), layout(65, 16)) }.is_err());
    // SAFETY: the failed call left this layout.
    assert!(unsafe { pool.shrink(block.cast(), layout(64, 16), layout(8, 32)) }.is_err());
    // SAFETY: the failed call left this layout.
    let shrunk = unsafe { pool.shrink(block.cast(), layout(64, 16), layout(1, 1)) }.unwrap();
    assert_eq!(address(shrunk), address(block));
    // SAFETY: shrunk to this layout.
    let none = unsafe { pool.shrink(block.cast(), layout(1, 1), layout(0, 64)) }.unwrap();
    assert_eq!((address(none) % 64, none.len()), (0, 0));
    // SAFETY: allocated with this layout.
    let again = unsafe { pool.grow(none.cast(), layout(0, 64), layout(8, 8)) }.unwrap();
    assert_eq!(address(again), address(block));
    // SAFETY: allocated with this layout.
    unsafe { pool.deallocate(again.cast(), layout(8, 8)) };
    let none = pool.allocate(layout(0, 1 << 40)).unwrap();
    // SAFETY: allocated with this layout.
    unsafe { pool.deallocate(none.cast(), layout(0, 1 << 40)) };
    assert_eq!(take_all(&pool, layout(64, 16)).len(), 1, "nothing is lost");
}

#[test]
fn a_block_grows_and_shrinks_in_place_and_to_zero_bytes() {
    static POOL: StaticPool<64, 2> = StaticPool::new();
    grows_and_shrinks_in_place(&Pool::new_in(attr(64, 16, 1), System).unwrap());
    grows_and_shrinks_in_place(&SharedPool::new_in(attr(64, 16, 1), System).unwrap());
    let classes = [Pool::new_in(attr(64, 16, 1), System).unwrap()];
    grows_and_shrinks_in_place(&SizeClasses::new(classes, Spill::Never));
    let block = (&POOL).allocate_zeroed(layout(8, 64)).unwrap();
    // SAFETY: allocated with this layout.
    let grown = unsafe { (&POOL).grow_zeroed(block.cast(), layout(8, 64), layout(64, 64)) }.unwrap();
    assert_eq!(address(grown), address(block));
    // SAFETY: zeroed.
    assert_eq!(unsafe { grown.as_ref() }, [0; 64]);
    // SAFETY: grown to this layout.
    let none = unsafe { (&POOL).shrink(block.cast(), layout(64, 64), layout(0, 8)) }.unwrap();
    assert_eq!(none.len(), 0);
    assert_eq!(take_all(&POOL, layout(64, 64)).len(), 2);
}

#[test]
fn a_static_pool_aligns_blocks_by_their_size() {
    static ODD: StaticPool<3, 5> = StaticPool::new();
    static PAGES: StaticPool<4096, 3> = StaticPool::new();
    static NONE: StaticPool<8, 0> = StaticPool::new();
    assert_eq!((ODD.block_align(), PAGES.block_align(), StaticPool::<48, 1>::new().block_align()), (1, 64, 16));
    assert_eq!((ODD.capacity(), ODD.block_size(), NONE.capacity()), (5, 3, 0));
    for block in take_all(&ODD, layout(3, 1)) {
        assert!(ODD.owns(block.cast(), layout(3, 1)) && !PAGES.owns(block.cast(), layout(3, 1)));
    }
    assert_eq!(take_all(&PAGES, layout(4096, 64)).len(), 3);
    assert!((&PAGES).allocate(layout(8, 128)).is_err() && (&NONE).allocate(layout(1, 1)).is_err());
}

#[test]
fn threads_share_a_pool() {
    static POOL: StaticPool<64, 6> = StaticPool::new();
    let shared = SharedPool::new_in(attr(64, 64, 6), System).unwrap();
    let got: u32 = thread::scope(|scope| {
        let threads = [1_u8, 2, 3, 4].map(|me| {
            let shared = &shared;
            scope.spawn(move || {
                let mut got = 0;
                for round in 0..5_000 {
                    let from_static = Box::try_new_in([me; 64], &POOL);
                    let blocks: Vec<_> =
                        (0..1 + round % 3).filter_map(|_| Box::try_new_in([me; 64], shared).ok()).collect();
                    assert!(from_static.iter().all(|block| **block == [me; 64]));
                    assert!(blocks.iter().all(|block| **block == [me; 64]));
                    got += u32::try_from(blocks.len()).unwrap() + u32::from(from_static.is_ok());
                }
                got
            })
        });
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert!(got > 20_000, "{got}: the threads got too few blocks");
    assert_eq!((take_all(&POOL, layout(64, 64)).len(), take_all(&shared, layout(64, 64)).len()), (6, 6));
}

#[test]
fn threads_hand_blocks_on() {
    let pool = SharedPool::new_in(attr(8, 8, 4), System).unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let pool = &pool;
        let thread = scope.spawn(move || {
            let mut sent = 0_u64;
            while sent < 5_000 {
                match Box::try_new_in(sent, pool) {
                    Ok(block) => {
                        sender.send(block).unwrap();
                        sent += 1;
                    }
                    Err(_) => thread::yield_now(),
                }
            }
        });
        for (expected, block) in (0_u64..).zip(receiver) {
            assert_eq!(*block, expected);
        }
        thread.join().expect("no panic");
    });
    assert_eq!(take_all(&pool, layout(8, 8)).len(), 4);
}

fn classes(spill: Spill) -> SizeClasses<System, Owner, 3> {
    let pools = [attr(512, 8, 1), attr(16, 16, 3), attr(64, 8, 2)].map(|attr| Pool::new_in(attr, System).unwrap());
    SizeClasses::new(pools, spill)
}

fn taken(classes: &SizeClasses<System, Owner, 3>) -> [u32; 3] {
    classes.pools().each_ref().map(Pool::taken)
}

#[test]
fn the_smallest_class_that_fits_gives_the_block() {
    let classes = classes(Spill::Never);
    for (one, expected) in [
        (layout(1, 1), [1, 0, 0]),
        (layout(16, 16), [2, 0, 0]),
        (layout(17, 8), [2, 1, 0]),
        (layout(65, 1), [2, 1, 1]),
        (layout(0, 64), [2, 1, 1]),
    ] {
        assert!((&classes).allocate(one).is_ok());
        assert_eq!(taken(&classes), expected, "{one:?}");
    }
    assert!((&classes).allocate(layout(513, 1)).is_err(), "larger than all");
    assert!((&classes).allocate(layout(17, 16)).is_err(), "only the smallest are aligned to 16");
    assert!((&classes).allocate(layout(512, 1)).is_err(), "there was one");
}

#[test]
fn an_exhausted_class_spills_only_if_spilling_is_enabled() {
    let (strict, spilling) = (classes(Spill::Never), classes(Spill::ToLarger));
    for _ in 0..3 {
        assert!((&strict).allocate(layout(8, 8)).is_ok() && (&spilling).allocate(layout(8, 8)).is_ok());
    }
    assert!((&strict).allocate(layout(8, 8)).is_err());
    for expected in [[3, 1, 0], [3, 2, 0], [3, 2, 1]] {
        assert!((&spilling).allocate(layout(8, 8)).is_ok());
        assert_eq!(taken(&spilling), expected);
    }
    assert!((&spilling).allocate(layout(8, 8)).is_err());
}

#[test]
fn blocks_move_between_classes_and_go_back_to_their_own() {
    let classes = classes(Spill::Never);
    let block = (&classes).allocate_zeroed(layout(4, 4)).unwrap();
    assert_eq!(taken(&classes), [1, 0, 0]);
    // SAFETY: allocated with this layout.
    let grown = unsafe { (&classes).grow_zeroed(block.cast(), layout(4, 4), layout(40, 8)) }.unwrap();
    assert_eq!(taken(&classes), [0, 1, 0]);
    // SAFETY: zeroed.
    assert_eq!(unsafe { &grown.as_ref()[..40] }, [0; 40]);
    // SAFETY: allocated with this layout.
    assert!(unsafe { (&classes).grow(grown.cast(), layout(40, 8), layout(513, 8)) }.is_err());
    assert_eq!(taken(&classes), [0, 1, 0]);
    // SAFETY: the failed call left this layout.
    let stricter = unsafe { (&classes).shrink(grown.cast(), layout(40, 8), layout(16, 16)) }.unwrap();
    assert_eq!((address(stricter) % 16, taken(&classes)), (0, [1, 0, 0]));
    // SAFETY: allocated with this layout.
    unsafe { (&classes).deallocate(stricter.cast(), layout(16, 16)) };
    assert_eq!(taken(&classes), [0, 0, 0]);
}

#[test]
fn a_pool_of_a_pool_gives_its_block_back() {
    let outer = Pool::new_in(attr(4096, 64, 2), System).unwrap();
    let inner = Pool::new_in(attr(100, 4, 20), &outer).unwrap();
    let blocks = take_all(&inner, layout(100, 4));
    let places: HashSet<_> = blocks.iter().map(|block| address(*block)).collect();
    assert_eq!((places.len(), outer.taken()), (20, 1));
    drop(inner);
    assert_eq!(outer.taken(), 0);
}
