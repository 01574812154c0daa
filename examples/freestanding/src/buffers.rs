use crate::failure::Failure;

pub type Buffer<'b> = &'b mut [u8];

const LOST: Failure = Failure::Wrong("a buffer was lost");

/// Source and target of an operation, absent while in flight.
pub struct Buffers<'b> {
    here: Option<Buffer<'b>>,
    there: Option<Buffer<'b>>,
}

impl<'b> Buffers<'b> {
    #[inline(always)]
    pub fn new(here: Buffer<'b>, there: Buffer<'b>) -> Self {
        Buffers { here: Some(here), there: Some(there) }
    }

    #[inline(always)]
    pub fn take(&mut self) -> Result<(Buffer<'b>, Buffer<'b>), Failure> {
        self.here.take().zip(self.there.take()).ok_or(LOST)
    }

    pub fn there(&mut self) -> Result<&mut [u8], Failure> {
        self.there.as_deref_mut().ok_or(LOST)
    }

    /// First eight bytes of the next send.
    pub fn stamp(&mut self, stamp: u64) -> Result<(), Failure> {
        *self.here.as_deref_mut().and_then(<[u8]>::first_chunk_mut).ok_or(LOST)? = stamp.to_le_bytes();
        Ok(())
    }

    pub fn stamped(&self, stamp: u64) -> Result<(), Failure> {
        let first = self.there.as_deref().and_then(<[u8]>::first_chunk).ok_or(LOST)?;
        if *first == stamp.to_le_bytes() { Ok(()) } else { Err(Failure::Wrong("other bytes arrived")) }
    }

    /// Fills the source, and makes the target different.
    pub fn fill(&mut self, seed: u8) -> Result<(), Failure> {
        let here = self.here.as_deref_mut().ok_or(LOST)?;
        let there = self.there.as_deref_mut().ok_or(LOST)?;
        for ((here, there), value) in here.iter_mut().zip(there).zip(pattern(seed)) {
            (*here, *there) = (value, !value);
        }
        Ok(())
    }

    pub fn filled(&mut self, seed: u8) -> Result<(), Failure> {
        let there = self.there()?;
        #[cfg(feature = "plant-byte")]
        if let Some(byte) = there.last_mut() {
            *byte ^= 1;
        }
        if there.iter().zip(pattern(seed)).all(|(byte, value)| *byte == value) {
            Ok(())
        } else {
            Err(Failure::Wrong("other bytes arrived"))
        }
    }
}

/// Bytes with a period of 251, by seed.
fn pattern(seed: u8) -> impl Iterator<Item = u8> {
    (0..251).cycle().map(move |place: u8| place.wrapping_mul(3).wrapping_add(seed))
}
