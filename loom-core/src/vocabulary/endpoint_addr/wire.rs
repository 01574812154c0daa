//! Addresses as bytes for a bootstrap: format and length as 32-bit little-endian numbers, then the
//! bytes.

use super::{AddressError, AddressFormat, EndpointAddr};

pub(super) const HEADER_LEN: usize = 8;

impl EndpointAddr {
    /// Writes the address to the start of `out`, and returns the written length: the address and 8
    /// bytes.
    ///
    /// ```
    /// use loom_core::EndpointAddr;
    ///
    /// # fixture::queue!(network, domain, av, cq);
    /// # let endpoint = cq.endpoint(&av)?;
    /// let address = endpoint.address()?;
    /// let mut message = [0; EndpointAddr::MAX_LEN + 8];
    /// let len = address.encode(&mut message)?;
    /// // The peer reads these bytes from a socket or a file. Other bytes may follow.
    /// let (received, taken) = EndpointAddr::decode(&message)?;
    /// assert_eq!((received, taken), (address, len));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`AddressError::BufferTooSmall`], without a write.
    pub fn encode(&self, out: &mut [u8]) -> Result<usize, AddressError> {
        let bytes = self.bytes();
        let len = u32::try_from(bytes.len()).map_err(|_| AddressError::TooLong)?;
        let total = HEADER_LEN + bytes.len();
        let out = out.get_mut(..total).ok_or(AddressError::BufferTooSmall)?;
        let encoded =
            (self.format().as_raw().to_le_bytes().into_iter()).chain(len.to_le_bytes()).chain(bytes.iter().copied());
        for (place, byte) in out.iter_mut().zip(encoded) {
            *place = byte;
        }
        Ok(total)
    }

    /// Reads an address from the start of `bytes`, and returns it with its encoded length.
    ///
    /// # Errors
    ///
    /// - [`AddressError::Truncated`] if `bytes` end too early.
    /// - [`AddressError::TooLong`] if the length exceeds [`MAX_LEN`](Self::MAX_LEN).
    pub fn decode(bytes: &[u8]) -> Result<(Self, usize), AddressError> {
        let (format, rest) = bytes.split_first_chunk().ok_or(AddressError::Truncated)?;
        let (len, rest) = rest.split_first_chunk().ok_or(AddressError::Truncated)?;
        let len = usize::try_from(u32::from_le_bytes(*len)).map_err(|_| AddressError::TooLong)?;
        if len > Self::MAX_LEN {
            return Err(AddressError::TooLong);
        }
        let bytes = rest.get(..len).ok_or(AddressError::Truncated)?;
        let format = AddressFormat::from_raw(u32::from_le_bytes(*format));
        Ok((Self::new(format, bytes)?, HEADER_LEN + len))
    }
}
