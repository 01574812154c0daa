use bytemuck::Pod;
use loom_core::vocabulary::Datatype;
use loom_core::{SourceBuffer, TargetBuffer};

/// Element of a collective: a number or another plain value. Messages are little-endian.
///
/// For a program's own type, implement `Pod` of [`bytemuck`] and this function.
///
/// ```
/// use loom_group::collective::bytemuck::{Pod, Zeroable};
/// use loom_group::collective::Element;
///
/// /// A value, and which member has it.
/// #[derive(Clone, Copy, Pod, Zeroable)]
/// #[repr(C)]
/// struct Located {
///     value: f64,
///     rank: u64,
/// }
///
/// impl Element for Located {
///     fn little_endian(self) -> Self {
///         Located { value: self.value.little_endian(), rank: self.rank.little_endian() }
///     }
/// }
/// ```
pub trait Element: Pod {
    /// Provider's name for a number of this type and native byte order. `None`: the
    /// [provider](super::Team::with_provider) never runs its collectives.
    const PROVIDER_TYPE: Option<Datatype> = None;

    /// Converts between native and little-endian byte order.
    #[must_use]
    fn little_endian(self) -> Self;
}

macro_rules! elements {
    ($($number:ty => $datatype:ident)*) => {$(
        impl Element for $number {
            const PROVIDER_TYPE: Option<Datatype> = Some(Datatype::$datatype);

            fn little_endian(self) -> Self {
                self.to_le()
            }
        }
    )*};
}

elements!(u8 => UINT8 u16 => UINT16 u32 => UINT32 u64 => UINT64 u128 => UINT128);
elements!(i8 => INT8 i16 => INT16 i32 => INT32 i64 => INT64 i128 => INT128);

impl Element for f32 {
    const PROVIDER_TYPE: Option<Datatype> = Some(Datatype::FLOAT);

    fn little_endian(self) -> Self {
        f32::from_bits(self.to_bits().to_le())
    }
}

impl Element for f64 {
    const PROVIDER_TYPE: Option<Datatype> = Some(Datatype::DOUBLE);

    fn little_endian(self) -> Self {
        f64::from_bits(self.to_bits().to_le())
    }
}

pub(super) fn put<E: Element>(elements: &[E], message: &mut [u8]) {
    if cfg!(target_endian = "little") {
        message.copy_from_slice(bytemuck::cast_slice(elements));
        return;
    }
    for (bytes, element) in message.chunks_exact_mut(size_of::<E>()).zip(elements) {
        bytes.copy_from_slice(bytemuck::bytes_of(&element.little_endian()));
    }
}

pub(super) fn take<E: Element>(message: &[u8], elements: &mut [E]) {
    bytemuck::cast_slice_mut(elements).copy_from_slice(message);
    if cfg!(target_endian = "big") {
        for element in elements {
            *element = element.little_endian();
        }
    }
}

/// Buffer for a message, with a variable length up to a capacity.
pub trait Packet: SourceBuffer + TargetBuffer {
    /// Capacity in bytes.
    fn most(&self) -> usize;

    /// Sets the length, up to [`most`](Self::most), and returns the bytes.
    fn sized(&mut self, len: usize) -> &mut [u8];
}

/// Does not grow beyond its capacity.
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
