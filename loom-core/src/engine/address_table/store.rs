//! [`Store`]: bytes of addresses that do not fit into their slots, in chains of small cells.

use super::NIL;
use super::key::Key;
use crate::vocabulary::{AddressFormat, EndpointAddr};

const ROOM: usize = 28;

#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    next: u32,
    bytes: [u8; ROOM],
}

const _: () = assert!(size_of::<Cell>() == 32);

impl Cell {
    pub(super) const EMPTY: Cell = Cell { next: NIL, bytes: [0; ROOM] };
}

/// Bytes of a packed IPv6 socket address: address, port, flow information, scope.
const V6_LEN: u16 = 26;
/// Bytes of a packed IPv4 socket address: address, port.
const V4_LEN: u16 = 6;
/// Bytes before the address: kind and length, then the format if it is not packed.
const HEAD: usize = 2;
const RAW_HEAD: usize = HEAD + 4;

const RAW: u16 = 0;
const V4: u16 = 1 << 14;
const V6: u16 = 2 << 14;
const KINDS: u16 = 3 << 14;

pub(super) const fn cells_for(len: usize) -> usize {
    (RAW_HEAD + len).div_ceil(ROOM)
}

const LONGEST: usize = RAW_HEAD + EndpointAddr::MAX_LEN;

struct Written {
    bytes: [u8; LONGEST],
    len: usize,
}

impl Written {
    /// Returns `None` if the key is longer than any address.
    fn of(key: &Key<'_>) -> Option<Self> {
        let mut written = Written { bytes: [0; _], len: 0 };
        match *key {
            Key::V4 { ip, port } => {
                written.put(&(V4 | V4_LEN).to_le_bytes())?;
                written.put(&ip.to_be_bytes())?;
                written.put(&port.to_be_bytes())?;
            }
            Key::V6 { ip, port, flow, scope } => {
                written.put(&(V6 | V6_LEN).to_le_bytes())?;
                written.put(&ip.to_be_bytes())?;
                written.put(&port.to_be_bytes())?;
                written.put(&flow.to_be_bytes())?;
                written.put(&scope.to_be_bytes())?;
            }
            Key::Raw { format, bytes } => {
                let len = u16::try_from(bytes.len()).ok().filter(|len| len & KINDS == 0)?;
                written.put(&(RAW | len).to_le_bytes())?;
                written.put(&format.as_raw().to_le_bytes())?;
                written.put(bytes)?;
            }
        }
        Some(written)
    }

    fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.len + bytes.len();
        self.bytes.get_mut(self.len..end)?.copy_from_slice(bytes);
        self.len = end;
        Some(())
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    fn key(&self) -> Option<Key<'_>> {
        let (head, rest) = self.bytes().split_first_chunk::<HEAD>()?;
        match u16::from_le_bytes(*head) & KINDS {
            V4 => {
                let (ip, port) = rest.split_first_chunk()?;
                let port = u16::from_be_bytes(port.try_into().ok()?);
                Some(Key::V4 { ip: u32::from_be_bytes(*ip), port })
            }
            V6 => {
                let (ip, rest) = rest.split_first_chunk()?;
                let (port, rest) = rest.split_first_chunk()?;
                let (flow, scope) = rest.split_first_chunk()?;
                Some(Key::V6 {
                    ip: u128::from_be_bytes(*ip),
                    port: u16::from_be_bytes(*port),
                    flow: u32::from_be_bytes(*flow),
                    scope: u32::from_be_bytes(scope.try_into().ok()?),
                })
            }
            _ => {
                let (format, bytes) = rest.split_first_chunk()?;
                Some(Key::Raw { format: AddressFormat::from_raw(u32::from_le_bytes(*format)), bytes })
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Store<'s> {
    cells: &'s mut [Cell],
    free: u32,
    free_count: usize,
}

impl<'s> Store<'s> {
    pub(super) fn new(cells: &'s mut [Cell]) -> Self {
        let count = cells.len();
        for (next, cell) in (1..).zip(cells.iter_mut()) {
            cell.next = if (next as usize) < count { next } else { NIL };
        }
        let free = if count == 0 { NIL } else { 0 };
        Store { cells, free, free_count: count }
    }

    pub(super) fn free(&self) -> usize {
        self.free_count
    }

    fn chain(&self, first: u32) -> impl Iterator<Item = &Cell> {
        core::iter::successors(self.cells.get(first as usize), |cell| self.cells.get(cell.next as usize))
    }

    /// Returns `None`, without a change, if too few cells are free.
    pub(super) fn put(&mut self, key: &Key<'_>) -> Option<u32> {
        let written = Written::of(key)?;
        let needed = written.len.div_ceil(ROOM);
        if needed > self.free_count {
            return None;
        }
        let first = self.free;
        let mut at = first;
        let mut last = None;
        for chunk in written.bytes().chunks(ROOM) {
            let cell = self.cells.get_mut(at as usize)?;
            for (to, from) in cell.bytes.iter_mut().zip(chunk) {
                *to = *from;
            }
            last = Some(at);
            at = cell.next;
        }
        self.cells.get_mut(last? as usize)?.next = NIL;
        self.free = at;
        self.free_count -= needed;
        Some(first)
    }

    pub(super) fn give_back(&mut self, first: u32) {
        let (mut last, mut count) = (first, 0);
        for cell in self.chain(first) {
            count += 1;
            if cell.next != NIL {
                last = cell.next;
            }
        }
        if let Some(cell) = self.cells.get_mut(last as usize) {
            cell.next = self.free;
            self.free = first;
            self.free_count += count;
        }
    }

    pub(super) fn read<R>(&self, first: u32, read: impl FnOnce(Key<'_>) -> R) -> Option<R> {
        let mut written = Written { bytes: [0; _], len: 0 };
        let head = self.cells.get(first as usize)?.bytes;
        let head = u16::from_le_bytes([head[0], head[1]]);
        let len = usize::from(head & !KINDS) + if head & KINDS == RAW { RAW_HEAD } else { HEAD };
        for cell in self.chain(first) {
            written.put(cell.bytes.get(..ROOM.min(len - written.len))?)?;
        }
        written.key().map(read)
    }

    pub(super) fn is(&self, first: u32, key: &Key<'_>) -> bool {
        let mut chain = self.chain(first);
        let mut holds = |bytes: &[u8]| chain.next().is_some_and(|cell| cell.bytes.starts_with(bytes));
        Written::of(key).is_some_and(|written| written.bytes().chunks(ROOM).all(&mut holds))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use core::net::SocketAddr;
    use std::vec;
    use std::vec::Vec;

    use super::*;

    fn raw(bytes: &[u8]) -> Key<'_> {
        Key::Raw { format: AddressFormat::ADDR_EFA, bytes }
    }

    #[test]
    fn every_length_is_returned_and_takes_its_count_of_cells() {
        let bytes: Vec<u8> = (0..512).map(|at: u32| at.to_le_bytes()[0] ^ 0x5a).collect();
        let mut cells = vec![Cell::EMPTY; 40];
        let mut store = Store::new(&mut cells);
        for len in 0..=512 {
            let free = store.free();
            let first = store.put(&raw(&bytes[..len])).unwrap();
            assert_eq!(free - store.free(), cells_for(len));
            assert!(store.read(first, |key| key == raw(&bytes[..len])).unwrap());
            assert!(store.is(first, &raw(&bytes[..len])));
            if let Some(shorter) = len.checked_sub(1) {
                let mut other = bytes[..len].to_vec();
                other[shorter] ^= 1;
                assert!(!store.is(first, &raw(&bytes[..shorter])) && !store.is(first, &raw(&other)));
            }
            store.give_back(first);
            assert_eq!(store.free(), free);
        }
    }

    #[test]
    fn full_store_keeps_its_contents() {
        let mut cells = vec![Cell::EMPTY; 3];
        let mut store = Store::new(&mut cells);
        let first = store.put(&raw(&[1; 32])).unwrap();
        assert_eq!((store.free(), store.put(&raw(&[2; 32]))), (1, None));
        assert_eq!(store.free(), 1);
        assert!(store.is(first, &raw(&[1; 32])));
        let other = store.put(&raw(&[3; 22])).unwrap();
        assert!(store.is(first, &raw(&[1; 32])) && store.is(other, &raw(&[3; 22])));
        assert_eq!(store.put(&raw(&[])), None);
        store.give_back(first);
        assert!(store.put(&raw(&[4; 50])).is_some());
    }

    #[test]
    fn packed_socket_addresses_take_one_cell_each() {
        let mut cells = vec![Cell::EMPTY; 2];
        let mut store = Store::new(&mut cells);
        for socket in ["10.0.0.1:0", "[fe80::1%7]:65535"] {
            let socket: SocketAddr = socket.parse().unwrap();
            let first = store.put(&socket.into()).unwrap();
            assert_eq!(store.read(first, |key| key.socket()), Some(Some(socket)));
            assert!(store.is(first, &socket.into()));
        }
        assert_eq!(store.free(), 0);
    }
}
