use std::vec::Vec;

use super::*;

fn layout(size: usize, align: usize) -> Layout {
    Layout::from_size_align(size, align).unwrap()
}

fn address(block: NonNull<[u8]>) -> usize {
    block.cast::<u8>().addr().get()
}

#[repr(align(64))]
struct Memory<const N: usize>([MaybeUninit<u8>; N]);

impl<const N: usize> Memory<N> {
    fn new() -> Self {
        Memory([MaybeUninit::uninit(); N])
    }
}

#[test]
fn blocks_are_aligned_wherever_the_memory_begins() {
    for offset in 0..16 {
        let mut memory = Memory::<1024>::new();
        let arena = Arena::new(&mut memory.0[offset..]);
        for align in [1, 2, 4, 8, 64, 16, 32, 1, 128] {
            let block = (&arena).allocate(layout(3, align)).unwrap();
            assert_eq!((address(block) % align, block.len()), (0, 3));
        }
        assert_eq!(arena.used() + arena.remaining(), arena.capacity());
    }
}

#[test]
fn exhaustion_is_an_error_without_any_change() {
    let mut memory = Memory::<64>::new();
    let arena = Arena::new(&mut memory.0);
    let allocator = &arena;
    let first = allocator.allocate(layout(60, 4)).unwrap();
    for wrong in [layout(5, 1), layout(1, 64), layout(isize::MAX as usize - 1, 2), layout(1, 1 << 62)] {
        assert!(allocator.allocate(wrong).is_err(), "{wrong:?}");
        assert_eq!(arena.used(), 60);
    }
    // SAFETY: allocated with this layout.
    assert!(unsafe { allocator.grow(first.cast(), layout(60, 4), layout(65, 4)) }.is_err());
    assert_eq!(arena.used(), 60);
    assert!(allocator.allocate(layout(4, 4)).is_ok());
    assert_eq!(arena.remaining(), 0);
    assert!(allocator.allocate(layout(1, 1)).is_err());
    assert!((&Arena::new(&mut [])).allocate(layout(1, 1)).is_err());
}

#[test]
fn empty_blocks_take_no_memory() {
    let mut memory = Memory::<64>::new();
    let arena = Arena::new(&mut memory.0);
    let allocator = &arena;
    for align in [1, 8, 4096, 1 << 62] {
        let block = allocator.allocate(layout(0, align)).unwrap();
        assert_eq!((address(block) % align, block.len(), arena.used()), (0, 0, 0));
        // SAFETY: allocated with this layout.
        unsafe { allocator.deallocate(block.cast(), layout(0, align)) };
    }
    let block = allocator.allocate(layout(0, 1)).unwrap();
    // SAFETY: allocated with this layout.
    let block = unsafe { allocator.grow(block.cast(), layout(0, 1), layout(8, 8)) }.unwrap();
    assert_eq!((block.len(), arena.used()), (8, 8));
    // SAFETY: allocated with this layout.
    let block = unsafe { allocator.shrink(block.cast(), layout(8, 8), layout(0, 8)) }.unwrap();
    assert_eq!((block.len(), arena.used()), (0, 0));
    // SAFETY: allocated with this layout.
    unsafe { allocator.deallocate(block.cast(), layout(0, 8)) };
    assert!(allocator.allocate(layout(64, 64)).is_ok());
}

#[test]
fn the_last_block_gives_its_room_back() {
    let mut memory = Memory::<64>::new();
    let arena = Arena::new(&mut memory.0);
    let allocator = &arena;
    let first = allocator.allocate(layout(16, 16)).unwrap();
    let second = allocator.allocate(layout(16, 16)).unwrap();
    // SAFETY: allocated with this layout.
    unsafe { allocator.deallocate(first.cast(), layout(16, 16)) };
    assert_eq!(arena.used(), 32, "it was not the last");
    // SAFETY: allocated with this layout.
    unsafe { allocator.deallocate(second.cast(), layout(16, 16)) };
    assert_eq!((arena.used(), arena.high_water()), (16, 32));
    assert_eq!(address(allocator.allocate(layout(48, 16)).unwrap()), address(second));
    assert_eq!((arena.used(), arena.high_water()), (64, 64));
}

#[test]
fn the_last_block_grows_and_shrinks_in_place_and_others_move() {
    let mut memory = Memory::<256>::new();
    let arena = Arena::new(&mut memory.0);
    let allocator = &arena;
    let first = allocator.allocate_zeroed(layout(8, 8)).unwrap();
    // SAFETY: allocated with this layout.
    let grown = unsafe { allocator.grow_zeroed(first.cast(), layout(8, 8), layout(32, 8)) }.unwrap();
    assert_eq!((address(grown), grown.len(), arena.used()), (address(first), 32, 32));
    // SAFETY: zeroed.
    assert_eq!(unsafe { grown.as_ref() }, [0; 32]);
    // SAFETY: allocated with this layout.
    let shrunk = unsafe { allocator.shrink(grown.cast(), layout(32, 8), layout(16, 8)) }.unwrap();
    assert_eq!((address(shrunk), shrunk.len(), arena.used()), (address(first), 16, 16));

    let second = allocator.allocate(layout(1, 1)).unwrap();
    // SAFETY: allocated with this layout.
    let moved = unsafe { allocator.grow(shrunk.cast(), layout(16, 8), layout(24, 8)) }.unwrap();
    assert!(address(moved) > address(second));
    // SAFETY: copied zeros.
    assert_eq!(unsafe { &moved.as_ref()[..16] }, [0; 16]);
    // SAFETY: allocated with this layout.
    let stricter = unsafe { allocator.shrink(moved.cast(), layout(24, 8), layout(8, 64)) }.unwrap();
    assert_eq!(address(stricter) % 64, 0);
}

struct Live {
    block: NonNull<u8>,
    layout: Layout,
    fill: u8,
}

impl Live {
    fn check(&self) {
        // SAFETY: allocated, and initialised by `fill`.
        let bytes = unsafe { NonNull::slice_from_raw_parts(self.block, self.layout.size()).as_ref() };
        assert!(bytes.iter().all(|byte| *byte == self.fill), "somebody else wrote into the block");
    }

    fn fill(&mut self, fill: u8) {
        // SAFETY: handed out with this size.
        unsafe { self.block.write_bytes(fill, self.layout.size()) };
        self.fill = fill;
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % limit
    }
}

#[test]
fn blocks_never_overlap_and_keep_their_contents() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut taken, mut full) = (0, 0);
    for _ in 0..200 {
        let mut memory = Memory::<2048>::new();
        let begin = random.below(64);
        let (from, to) = (memory.0[begin..].as_ptr().addr(), memory.0.as_ptr_range().end.addr());
        let arena = Arena::new(&mut memory.0[begin..]);
        let allocator = &arena;
        let mut live: Vec<Live> = Vec::new();
        for step in 0..200 {
            let wanted = layout(random.below(128), 1 << random.below(7));
            let chosen = (!live.is_empty()).then(|| random.below(live.len()));
            let before = arena.used();
            match (random.below(8), chosen) {
                (0..=2, _) | (_, None) => match allocator.allocate(wanted) {
                    Ok(block) => live.push(Live { block: block.cast(), layout: wanted, fill: 0 }),
                    Err(_) => full += 1,
                },
                (3 | 4, Some(at)) => {
                    let at = if step % 2 == 0 { live.len() - 1 } else { at };
                    let Live { block, layout, .. } = live.remove(at);
                    // SAFETY: handed out with this layout.
                    unsafe { allocator.deallocate(block, layout) };
                }
                (5 | 6, Some(at)) => {
                    let old = live[at].layout;
                    let new = layout(old.size() + wanted.size(), wanted.align());
                    // SAFETY: handed out with this layout.
                    let Ok(block) = (unsafe { allocator.grow(live[at].block, old, new) }) else {
                        assert_eq!(arena.used(), before);
                        full += 1;
                        continue;
                    };
                    let kept = Live { block: block.cast(), layout: old, ..live[at] };
                    kept.check();
                    live[at] = Live { layout: new, ..kept };
                }
                (_, Some(at)) => {
                    let old = live[at].layout;
                    let new = layout(random.below(old.size() + 1), wanted.align());
                    // SAFETY: handed out with this layout.
                    let Ok(block) = (unsafe { allocator.shrink(live[at].block, old, new) }) else {
                        assert_eq!(arena.used(), before);
                        full += 1;
                        continue;
                    };
                    live[at] = Live { block: block.cast(), layout: new, ..live[at] };
                }
            }
            let fill = u8::try_from(step).unwrap();
            if let Some(newest) = chosen.filter(|at| *at < live.len()).or(live.len().checked_sub(1)) {
                live[newest].fill(fill);
            }
            if let Some(last) = live.last_mut() {
                last.fill(fill.wrapping_add(1));
            }
            taken += 1;
            for block in &live {
                let begin = block.block.addr().get();
                assert_eq!(begin % block.layout.align(), 0);
                assert!(block.layout.size() == 0 || begin >= from && begin + block.layout.size() <= to);
                block.check();
            }
            let mut ranges: Vec<_> = live
                .iter()
                .filter(|block| block.layout.size() > 0)
                .map(|block| (block.block.addr().get(), block.block.addr().get() + block.layout.size()))
                .collect();
            ranges.sort_unstable();
            assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{ranges:?}");
            assert!(arena.used() <= arena.high_water() && arena.high_water() <= arena.capacity());
        }
    }
    assert!(taken > 10_000 && full > 100, "{taken} steps, {full} times full: the test tests nothing");
}
