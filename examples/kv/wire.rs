//! Requests and replies as bytes: a header of fixed length, little-endian, and what follows it.
//!
//! | request | | reply | |
//! |---:|---|---:|---|
//! | 0 | [`VERSION`] | 0 | [`VERSION`] |
//! | 1 | [`Op`] | 1 | [`Status`] |
//! | 2 | length of the key, 2 bytes | 2 | zero, 2 bytes |
//! | 4 | number of the request, 4 bytes | 4 | number of the request, 4 bytes |
//! | 8 | length of the value (put), or zero, 8 bytes | 8 | length of the value, 8 bytes |
//! | 16 | the client's region: address, length, key and access of 8 bytes each | 16 | the value, if it is [short](INLINE) |
//! | 48 | the key, then the value, if it is [short](INLINE) | | |
//!
//! A long value does not travel in messages: the server reads it from the client's region (put), or writes it there before it replies (get).

use loom_fabric::RemoteRegion;

/// The first byte of every message.
pub(crate) const VERSION: u8 = 2;

/// The longest value that travels in a message.
pub(crate) const INLINE: usize = 4096;

/// The longest key.
pub(crate) const MAX_KEY: usize = 1024;

const REQUEST_HEADER: usize = 16 + RemoteRegion::WIRE_LEN;
const REPLY_HEADER: usize = 16;

/// The longest message: what receives have room for.
pub(crate) const MAX_MESSAGE: usize = REQUEST_HEADER + MAX_KEY + INLINE;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Get = 1,
    Put = 2,
    Delete = 3,
}

/// What has come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Done = 0,
    /// There is no value for this key.
    NotFound = 1,
    /// The request is none of this version.
    Malformed = 2,
    /// The client's region is shorter than the value, whose length is in the reply.
    TooLong = 3,
    /// The server's memory for values is full.
    Full = 4,
    /// The value could not be moved from or to the client's region.
    NotMoved = 5,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Request<'a> {
    pub(crate) op: Op,
    pub(crate) id: u32,
    pub(crate) region: RemoteRegion,
    pub(crate) key: &'a [u8],
    /// Of a put.
    pub(crate) len: u64,
    /// Of a put: all of the value if it is short, otherwise empty.
    pub(crate) value: &'a [u8],
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reply<'a> {
    pub(crate) status: Status,
    pub(crate) id: u32,
    pub(crate) len: u64,
    /// All of the value if it is short, otherwise empty.
    pub(crate) value: &'a [u8],
}

/// What are no message of this version. The number of the request is there if the bytes are enough for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub(crate) id: u32,
}

/// Whether a value of this length travels in messages.
pub(crate) fn is_short(len: u64) -> bool {
    len <= INLINE as u64
}

impl<'a> Request<'a> {
    /// The message. A key that is longer than [`MAX_KEY`] has none.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let key_len = u16::try_from(self.key.len()).ok().filter(|_| self.key.len() <= MAX_KEY)?;
        let mut bytes = vec![VERSION, self.op as u8];
        bytes.extend(key_len.to_le_bytes());
        bytes.extend(self.id.to_le_bytes());
        bytes.extend(self.len.to_le_bytes());
        bytes.extend(self.region.to_bytes());
        bytes.extend(self.key);
        bytes.extend(self.value);
        Some(bytes)
    }

    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let malformed = Malformed { id: field(bytes, 4).map_or(0, u32::from_le_bytes) };
        Self::read(bytes).ok_or(malformed)
    }

    fn read(bytes: &'a [u8]) -> Option<Self> {
        let [version, op] = field(bytes, 0)?;
        let op = [Op::Get, Op::Put, Op::Delete].into_iter().find(|known| *known as u8 == op)?;
        let (id, len) = (u32::from_le_bytes(field(bytes, 4)?), u64::from_le_bytes(field(bytes, 8)?));
        let region = RemoteRegion::from_bytes(&field(bytes, 16)?);
        let key_len = usize::from(u16::from_le_bytes(field(bytes, 2)?));
        let (key, value) = bytes.get(REQUEST_HEADER..)?.split_at_checked(key_len)?;
        let inline = if op == Op::Put && is_short(len) { len } else { 0 };
        let fits =
            version == VERSION && key_len <= MAX_KEY && value.len() as u64 == inline && (op == Op::Put || len == 0);
        fits.then_some(Request { op, id, region, key, len, value })
    }
}

impl<'a> Reply<'a> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION, self.status as u8, 0, 0];
        bytes.extend(self.id.to_le_bytes());
        bytes.extend(self.len.to_le_bytes());
        bytes.extend(self.value);
        bytes
    }

    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let malformed = Malformed { id: field(bytes, 4).map_or(0, u32::from_le_bytes) };
        Self::read(bytes).ok_or(malformed)
    }

    fn read(bytes: &'a [u8]) -> Option<Self> {
        use Status::{Done, Full, Malformed, NotFound, NotMoved, TooLong};
        let [version, status, 0, 0] = field(bytes, 0)? else { return None };
        let all = [Done, NotFound, Malformed, TooLong, Full, NotMoved];
        let status = all.into_iter().find(|known| *known as u8 == status)?;
        let (id, len) = (u32::from_le_bytes(field(bytes, 4)?), u64::from_le_bytes(field(bytes, 8)?));
        let value = bytes.get(REPLY_HEADER..)?;
        let inline = if status == Done && is_short(len) { len } else { 0 };
        (version == VERSION && value.len() as u64 == inline).then_some(Reply { status, id, len, value })
    }
}

/// The bytes from `at` on, if they are there.
fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use loom_core::vocabulary::{Access, MemoryKey, RemoteAddr};

    use super::*;

    const REGION: RemoteRegion = RemoteRegion::new(RemoteAddr(0x0102_0304), 5000, MemoryKey(7), Access::REMOTE_READ);

    fn put(len: u64, value: &[u8]) -> Request<'_> {
        Request { op: Op::Put, id: 0xa1b2_c3d4, region: REGION, key: b"key", len, value }
    }

    #[test]
    fn requests_have_the_documented_bytes() {
        let bytes = put(2, b"ab").encode().unwrap_or_default();
        assert_eq!(bytes[..8], [2, 2, 3, 0, 0xd4, 0xc3, 0xb2, 0xa1]);
        assert_eq!(bytes[8..24], [2, 0, 0, 0, 0, 0, 0, 0, 4, 3, 2, 1, 0, 0, 0, 0]);
        assert_eq!(bytes[48..], *b"keyab");
    }

    #[test]
    fn messages_come_back_and_their_parts_are_refused() {
        let get = Request { op: Op::Get, len: 0, ..put(0, b"") };
        for request in [put(2, b"ab"), put(0, b""), put(1 << 40, b""), get] {
            let bytes = request.encode().unwrap_or_default();
            assert_eq!(Request::decode(&bytes), Ok(request));
            for len in 0..bytes.len() {
                let id = if len < 8 { 0 } else { 0xa1b2_c3d4 };
                assert_eq!(Request::decode(&bytes[..len]), Err(Malformed { id }), "{len}");
            }
        }
        for (status, len, value) in
            [(Status::Done, 2, &b"ab"[..]), (Status::TooLong, 2, b""), (Status::Done, 5000, b"")]
        {
            let reply = Reply { status, id: 9, len, value };
            let bytes = reply.encode();
            assert_eq!(Reply::decode(&bytes), Ok(reply));
            for len in 0..bytes.len() {
                assert!(Reply::decode(&bytes[..len]).is_err());
            }
        }
    }

    #[test]
    fn fields_without_sense_are_refused() {
        let good = put(2, b"ab").encode().unwrap_or_default();
        for (at, wrong) in [(0, 1), (0, 3), (1, 0), (1, 4), (1, 1), (2, 9), (3, 0xff), (8, 1), (9, 0xff)] {
            let mut bytes = good.clone();
            bytes[at] = wrong;
            assert_eq!(Request::decode(&bytes), Err(Malformed { id: 0xa1b2_c3d4 }), "byte {at}");
        }
        assert_eq!(Request { key: &[0; MAX_KEY + 1], ..put(0, b"") }.encode(), None);
        assert!(Reply::decode(&[VERSION, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).is_err());
    }
}
