/// Range to move: offsets in the local and in the remote memory, and a length, in bytes.
///
/// As a [`Plan`], a transfer of one range. A block of length 0 is one operation without bytes,
/// which notifies the peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// Offset in the local memory.
    pub local: u64,
    /// Offset in the remote memory.
    pub remote: u64,
    /// Length.
    pub len: u64,
}

impl Block {
    /// Within no memory.
    const OUTSIDE: Block = Block { local: u64::MAX, remote: u64::MAX, len: u64::MAX };

    const fn operations(self, piece: u64) -> u64 {
        if self.len == 0 || piece == 0 { 1 } else { self.len.div_ceil(piece) }
    }

    fn moved(self, count: u64, local: u64, remote: u64) -> Self {
        Block {
            local: self.local.saturating_add(local.saturating_mul(count)),
            remote: self.remote.saturating_add(remote.saturating_mul(count)),
            len: self.len,
        }
    }
}

/// Blocks of a transfer. Both sides compute the number of operations, for which the receiver can
/// [wait](crate::Engine::wait).
///
/// A transfer takes its plan by value, and its [`Outcome`](crate::Outcome) returns it.
///
/// ```
/// use loom_transfer::{Block, Pages, Plan, Strided};
///
/// // Pages 7 and 2 of the local memory, to pages 0 and 9 of the peer's.
/// let pages = Pages::new([7, 2], [0, 9], 4096).expect("as many pages on both sides");
/// assert_eq!(pages.block(1), Block { local: 2 * 4096, remote: 9 * 4096, len: 4096 });
/// // Each page is two operations of at most 2,048 bytes.
/// assert_eq!((pages.operations(2048), pages.bytes()), (4, 8192));
/// // A tile of 8 rows of 64 bytes, in an image of 1,024 bytes per row, becomes contiguous.
/// let first = Block { local: 512, remote: 0, len: 64 };
/// let tile = Strided { first, count: 8, local_pitch: 1024, remote_pitch: 64 };
/// assert_eq!(tile.block(7), Block { local: 512 + 7 * 1024, remote: 7 * 64, len: 64 });
/// ```
pub trait Plan {
    /// Number of blocks.
    fn blocks(&self) -> usize;

    /// Block of this index, below [`blocks`](Self::blocks).
    fn block(&self, index: usize) -> Block;

    /// Number of operations of at most `piece` bytes. Takes time linear in the blocks by default.
    fn operations(&self, piece: u64) -> u64 {
        (0..self.blocks()).map(|index| self.block(index).operations(piece)).fold(0, u64::saturating_add)
    }

    /// Number of bytes. Takes time linear in the blocks by default.
    fn bytes(&self) -> u64 {
        (0..self.blocks()).map(|index| self.block(index).len).fold(0, u64::saturating_add)
    }
}

impl<P: Plan + ?Sized> Plan for &P {
    fn blocks(&self) -> usize {
        (**self).blocks()
    }

    fn block(&self, index: usize) -> Block {
        (**self).block(index)
    }

    fn operations(&self, piece: u64) -> u64 {
        (**self).operations(piece)
    }

    fn bytes(&self) -> u64 {
        (**self).bytes()
    }
}

impl Plan for Block {
    fn blocks(&self) -> usize {
        1
    }

    #[inline]
    fn block(&self, _: usize) -> Block {
        *self
    }
}

/// Blocks of a list.
///
/// ```
/// use loom_transfer::{Block, Blocks, Plan};
///
/// let blocks = Blocks([Block { local: 0, remote: 64, len: 10 }, Block { local: 100, remote: 0, len: 20 }]);
/// assert_eq!((blocks.operations(16), blocks.bytes()), (3, 30));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Blocks<L>(pub L);

impl<L: AsRef<[Block]>> Plan for Blocks<L> {
    fn blocks(&self) -> usize {
        self.0.as_ref().len()
    }

    #[inline]
    fn block(&self, index: usize) -> Block {
        self.0.as_ref().get(index).copied().unwrap_or(Block::OUTSIDE)
    }
}

/// Pages of equal length, by their numbers on both sides.
#[derive(Clone, Copy, Debug)]
pub struct Pages<L> {
    local: L,
    remote: L,
    first: Block,
    local_stride: u64,
    remote_stride: u64,
}

impl<L: AsRef<[u32]>> Pages<L> {
    /// Pages of `len` bytes, which lie beside each other on both sides. Returns `None` if the lists
    /// differ in length.
    #[must_use]
    pub fn new(local: L, remote: L, len: u64) -> Option<Self> {
        let same = local.as_ref().len() == remote.as_ref().len();
        let first = Block { local: 0, remote: 0, len };
        same.then_some(Pages { local, remote, first, local_stride: len, remote_stride: len })
    }

    /// Sets the distances of pages in bytes, by default the length of a page.
    #[must_use]
    pub const fn strides(mut self, local: u64, remote: u64) -> Self {
        (self.local_stride, self.remote_stride) = (local, remote);
        self
    }

    /// Sets the offsets of page 0 in bytes, by default 0.
    #[must_use]
    pub const fn offsets(mut self, local: u64, remote: u64) -> Self {
        (self.first.local, self.first.remote) = (local, remote);
        self
    }
}

impl<L: AsRef<[u32]>> Plan for Pages<L> {
    fn blocks(&self) -> usize {
        self.local.as_ref().len()
    }

    #[inline]
    fn block(&self, index: usize) -> Block {
        let pages = (self.local.as_ref().get(index), self.remote.as_ref().get(index));
        let (Some(&local), Some(&remote)) = pages else { return Block::OUTSIDE };
        Block {
            local: self.first.local.saturating_add(self.local_stride.saturating_mul(local.into())),
            remote: self.first.remote.saturating_add(self.remote_stride.saturating_mul(remote.into())),
            len: self.first.len,
        }
    }

    fn operations(&self, piece: u64) -> u64 {
        self.first.operations(piece).saturating_mul(self.blocks() as u64)
    }
}

/// Blocks of equal length at equal distances.
#[derive(Clone, Copy, Debug)]
pub struct Strided {
    /// First block.
    pub first: Block,
    /// Number of blocks.
    pub count: usize,
    /// Distance of blocks in the local memory, in bytes.
    pub local_pitch: u64,
    /// Distance of blocks in the remote memory, in bytes.
    pub remote_pitch: u64,
}

impl Plan for Strided {
    fn blocks(&self) -> usize {
        self.count
    }

    #[inline]
    fn block(&self, index: usize) -> Block {
        self.first.moved(index as u64, self.local_pitch, self.remote_pitch)
    }

    fn operations(&self, piece: u64) -> u64 {
        self.first.operations(piece).saturating_mul(self.count as u64)
    }
}

/// Blocks of another plan, by their indices.
///
/// ```
/// use loom_transfer::{Pages, Plan, Subset};
///
/// let layers = Pages::new([0, 1, 2, 3], [4, 5, 6, 7], 4096).expect("as many pages on both sides");
/// let odd = Subset { plan: &layers, indices: [1, 3] };
/// assert_eq!((odd.blocks(), odd.block(1)), (2, layers.block(3)));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Subset<P, L> {
    /// Plan.
    pub plan: P,
    /// Indices of its blocks. An index beyond the plan is refused when the transfer is submitted.
    pub indices: L,
}

impl<P: Plan, L: AsRef<[u32]>> Plan for Subset<P, L> {
    fn blocks(&self) -> usize {
        self.indices.as_ref().len()
    }

    #[inline]
    fn block(&self, index: usize) -> Block {
        let index = self.indices.as_ref().get(index).map(|index| *index as usize);
        index.filter(|index| *index < self.plan.blocks()).map_or(Block::OUTSIDE, |index| self.plan.block(index))
    }
}

/// Position in a plan.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    index: usize,
    blocks: usize,
    rest: Block,
}

impl Cursor {
    const LOST: Cursor = Cursor { index: usize::MAX, blocks: 0, rest: Block { local: 0, remote: 0, len: 0 } };

    pub(crate) const fn is_lost(&self) -> bool {
        self.index == Self::LOST.index
    }

    /// Takes the cursor while operations are posted. It is lost if it is not put back: the plan is
    /// the user's code, and may panic.
    pub(crate) const fn take(&mut self) -> Self {
        core::mem::replace(self, Self::LOST)
    }

    pub(crate) fn new(plan: &impl Plan) -> Self {
        let blocks = plan.blocks();
        Cursor { index: 0, blocks, rest: if blocks > 0 { plan.block(0) } else { Block::default() } }
    }

    #[inline(always)]
    pub(crate) fn peek(&self, piece: u64) -> Option<Block> {
        (self.index < self.blocks).then_some(Block { len: self.rest.len.min(piece), ..self.rest })
    }

    pub(crate) const fn is_last(&self, piece: u64) -> bool {
        self.blocks - self.index <= 1 && self.rest.len <= piece
    }

    #[inline(always)]
    pub(crate) fn advance(&mut self, plan: &impl Plan, posted: Block) {
        self.rest.len -= posted.len;
        if self.rest.len > 0 {
            self.rest.local = self.rest.local.saturating_add(posted.len);
            self.rest.remote = self.rest.remote.saturating_add(posted.len);
            return;
        }
        self.index += 1;
        if self.index < self.blocks {
            self.rest = plan.block(self.index);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn pieces(plan: &impl Plan, piece: u64) -> Vec<Block> {
        let mut cursor = Cursor::new(plan);
        let mut all = Vec::new();
        while let Some(next) = cursor.peek(piece) {
            assert_eq!(cursor.is_last(piece), all.len() as u64 + 1 == plan.operations(piece));
            all.push(next);
            cursor.advance(plan, next);
        }
        all
    }

    #[test]
    fn every_length_is_divided_exactly() {
        // Among them those at which another engine drops the tail: 16,385 over 2, 1,048,579 over 4,
        // 1 over 2.
        let lengths = (0..70).chain([4095, 4096, 4097, 8191, 8192, 16_383, 16_384, 16_385, 1_048_579]);
        for len in lengths {
            for piece in [1, 2, 3, 7, 64, 4096, 8192, 16_384, 524_289, u64::MAX] {
                if len / piece > 100_000 {
                    continue;
                }
                let block = Block { local: 5, remote: 1 << 40, len };
                let all = pieces(&block, piece);
                assert_eq!(all.len() as u64, block.operations(piece), "{len} in {piece}");
                let mut at = 0;
                for part in &all {
                    assert_eq!((part.local, part.remote), (5 + at, (1 << 40) + at), "{len} in {piece}");
                    assert!(part.len <= piece);
                    assert!(part.len > 0 || len == 0);
                    at += part.len;
                }
                assert_eq!(at, len, "{len} in {piece}");
            }
        }
    }

    #[test]
    fn plans_that_are_out_of_range_name_no_memory() {
        let pages = Pages::new([u32::MAX], [0], 8).expect("one page each").strides(u64::MAX, 8);
        assert_eq!(pages.block(0).local, u64::MAX);
        assert_eq!(pages.block(1), Block::OUTSIDE);
        assert!(Pages::new(&[1, 2][..], &[1][..], 8).is_none());
        assert_eq!(Subset { plan: Block::default(), indices: [1] }.block(0), Block::OUTSIDE);
        assert!(pieces(&Blocks([]), 8).is_empty());
    }

    #[test]
    fn a_division_covers_all_kinds_of_plans() {
        let first = Block { local: 3, remote: 9, len: 10 };
        let strided = Strided { first, count: 3, local_pitch: 100, remote_pitch: 10 };
        let parts = pieces(&strided, 4);
        let listed: Vec<_> = (0..3).map(|index| strided.block(index)).collect();
        assert_eq!(parts, pieces(&Blocks(&listed[..]), 4));
        assert_eq!(parts.len(), 9);
        assert_eq!(parts[4], Block { local: 107, remote: 23, len: 4 });
        assert_eq!((strided.operations(4), strided.bytes()), (9, 30));
    }
}
