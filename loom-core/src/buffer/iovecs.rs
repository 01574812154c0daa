use core::ptr::NonNull;

use heapless::Vec;

use super::{Buffer, Lent, SourceBuffer, TargetBuffer};

/// Ranges of one operation, in order.
///
/// ```
/// use loom_core::{Forever, SendOptions, Source, endpoint::RecvOptions};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// // The calls whose names end in `with` send one message from two buffers, and receive it into two.
/// let room = [vec![0; 2], vec![0; 5]];
/// let received = bob.recv_with(Source::Any, RecvOptions::default(), room)?;
/// let message = [b"hell".to_vec(), b"o".to_vec()];
/// cq.post(message, Forever, |message| alice.send_with(to_bob, SendOptions::default(), message))?;
/// let (room, result) = cq.finish(received, Forever)?.into_parts();
/// assert_eq!((result?.len, room), (5, [b"he".to_vec(), b"llo\0\0".to_vec()]));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Debug, Default)]
#[doc(alias = "iovec")]
pub struct IoVecs {
    list: Vec<Lent, { IoVecs::MOST }>,
    too_many: bool,
}

impl IoVecs {
    /// Maximum number of pieces of an operation.
    pub const MOST: usize = 8;

    /// Adds a range. An operation with more than [`IoVecs::MOST`] ranges is refused.
    pub fn push(&mut self, piece: Lent) {
        self.too_many |= self.list.push(piece).is_err();
    }

    pub(crate) fn get(&self) -> Option<&[Lent]> {
        if self.too_many { None } else { Some(&self.list) }
    }

    pub(crate) fn get_mut(&mut self) -> Option<&mut [Lent]> {
        if self.too_many { None } else { Some(&mut self.list) }
    }

    pub(crate) fn total(&self) -> Option<usize> {
        self.list.iter().try_fold(0_usize, |total, piece| total.checked_add(piece.len))
    }
}

/// One message from or into several buffers, for calls such as
/// [`send_with`](crate::endpoint::Endpoint::send_with).
// SAFETY: the array owns its buffers, and each keeps the contract of `Buffer`.
unsafe impl<B: Buffer, const N: usize> Buffer for [B; N] {
    #[inline]
    fn lend(&mut self) -> Lent {
        match self.as_mut_slice() {
            [only] => only.lend(),
            _ => Lent::nothing(),
        }
    }

    fn lend_pieces(&mut self, pieces: &mut IoVecs) {
        for buffer in self {
            buffer.lend_pieces(pieces);
        }
    }
}
impl<B: SourceBuffer, const N: usize> SourceBuffer for [B; N] {}
impl<B: TargetBuffer, const N: usize> TargetBuffer for [B; N] {}

impl Lent {
    const fn nothing() -> Self {
        let mut nothing = Lent::source(NonNull::dangling(), 0);
        nothing.readable = false;
        nothing
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn an_array_lends_its_buffers_in_order() {
        let (one, two) = ([1_u8; 3], [2_u8; 5]);
        let mut array = [&one[..], &two[..]];
        let mut pieces = IoVecs::default();
        array.lend_pieces(&mut pieces);
        let lent: std::vec::Vec<_> =
            pieces.get().unwrap().iter().map(|piece| (piece.ptr.as_ptr(), piece.len)).collect();
        assert_eq!(lent, [(one.as_ptr().cast_mut(), 3), (two.as_ptr().cast_mut(), 5)]);
        assert_eq!(pieces.total(), Some(8));
        assert!(!array.lend().readable, "two buffers are not one range");
        assert_eq!([&two[..]].lend().len, 5);
    }

    #[test]
    fn more_than_there_is_room_for_is_noticed() {
        let mut pieces = IoVecs::default();
        [[(); 4]; 2].lend_pieces(&mut pieces);
        assert_eq!(pieces.get().map(<[Lent]>::len), Some(IoVecs::MOST));
        ().lend_pieces(&mut pieces);
        assert!(pieces.get().is_none());
    }
}
