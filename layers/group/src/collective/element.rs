//! [`Element`]: a number, and its bytes in a message; [`Packet`]: a buffer for messages.

use loom_core::{SourceBuffer, TargetBuffer};

/// What collectives move: a number. In messages it is in little-endian order.
pub trait Element: Copy {
    /// How many bytes it has in a message: at least one.
    const SIZE: usize;

    /// Puts it into [`SIZE`](Self::SIZE) bytes.
    fn put(self, bytes: &mut [u8]);

    /// The number that these [`SIZE`](Self::SIZE) bytes are. `None` if there are more or fewer.
    fn get(bytes: &[u8]) -> Option<Self>;
}

macro_rules! elements {
    ($($number:ty),*) => {$(
        impl Element for $number {
            const SIZE: usize = size_of::<$number>();

            fn put(self, bytes: &mut [u8]) {
                for (to, from) in bytes.iter_mut().zip(self.to_le_bytes()) {
                    *to = from;
                }
            }

            fn get(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(<$number>::from_le_bytes)
            }
        }
    )*};
}

elements!(u8, u16, u32, u64, u128, i8, i16, i32, i64, i128, f32, f64);

/// A buffer in which a message is sent or received: bytes of a length that can be set, up to a capacity.
pub trait Packet: SourceBuffer + TargetBuffer {
    /// The most bytes.
    fn most(&self) -> usize;

    /// Sets the length, at most [`most`](Self::most), and gives the bytes.
    fn sized(&mut self, len: usize) -> &mut [u8];
}

/// Its capacity is the most: it does not grow.
#[cfg(feature = "std")]
impl Packet for std::vec::Vec<u8> {
    fn most(&self) -> usize {
        self.capacity()
    }

    fn sized(&mut self, len: usize) -> &mut [u8] {
        self.resize(len.min(self.capacity()), 0);
        self
    }
}

/// Its capacity is the most: it does not grow.
#[cfg(feature = "std")]
impl<A: loom_core::buffer::RegisteredAllocator> Packet for loom_core::allocator_api2::vec::Vec<u8, A> {
    fn most(&self) -> usize {
        self.capacity()
    }

    fn sized(&mut self, len: usize) -> &mut [u8] {
        self.resize(len.min(self.capacity()), 0);
        self
    }
}
