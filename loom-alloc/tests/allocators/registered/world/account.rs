//! Expected contents of leases: byte numbers in the memory of their slabs.

use std::ops::Range;

use loom_alloc::registered::SlabAttr;

/// Expected content of a lease.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    pub slab: usize,
    /// Bytes of the lease.
    pub part: Range<usize>,
    pub data: Range<usize>,
}

impl Account {
    /// Makes the whole lease room if it has no data.
    fn settled(mut self) -> Self {
        if self.data.is_empty() {
            self.data = self.part.start..self.part.start;
        }
        self
    }

    /// Returns the same data, restricted to a part.
    pub fn within(&self, part: Range<usize>) -> Account {
        let data = self.data.start.clamp(part.start, part.end)..self.data.end.clamp(part.start, part.end);
        Account { slab: self.slab, part, data }.settled()
    }

    pub fn with_data(&self, data: Range<usize>) -> Account {
        Account { data, ..self.clone() }.settled()
    }

    pub fn room(&self) -> Range<usize> {
        self.data.end..self.part.end
    }

    /// Range that is posted.
    pub fn posted(&self) -> Range<usize> {
        if self.data.is_empty() { self.part.clone() } else { self.data.clone() }
    }

    pub fn touches(&self, other: &Account) -> bool {
        self.slab == other.slab && (self.part.end == other.part.start || other.part.end == self.part.start)
    }
}

/// Memory of a slab.
#[derive(Debug)]
pub struct Model {
    /// Address of the first buffer.
    pub begin: usize,
    pub attr: SlabAttr,
    /// Distance between the begins of two buffers.
    pub stride: usize,
    /// Bytes from the first buffer to the end.
    pub bytes: Vec<u8>,
}

impl Model {
    /// Returns the model of a slab over these bytes.
    pub fn new(attr: SlabAttr, bytes: &[u8]) -> Self {
        let begin = bytes.as_ptr().addr().next_multiple_of(attr.align);
        let bytes = bytes[begin - bytes.as_ptr().addr()..].to_vec();
        Model { begin, attr, stride: attr.size.next_multiple_of(attr.align), bytes }
    }

    /// Index of the buffer that contains a part.
    pub fn buffer(&self, part: &Range<usize>) -> usize {
        part.start / self.stride
    }

    /// Result of joining two leases. `None` if they are not adjacent in a buffer, or their data
    /// would not be contiguous.
    pub fn joined(&self, one: &Account, other: &Account) -> Option<Account> {
        let [first, second] = if one.part.start < other.part.start { [one, other] } else { [other, one] };
        let neighbours = first.part.end == second.part.start && self.buffer(&first.part) == self.buffer(&second.part);
        let data = match (first.data.is_empty(), second.data.is_empty()) {
            (false, false) if first.data.end != second.data.start => return None,
            (false, false) => first.data.start..second.data.end,
            (false, true) => first.data.clone(),
            (true, _) => second.data.clone(),
        };
        let joined = Account { slab: one.slab, part: first.part.start..second.part.end, data };
        (neighbours && one.slab == other.slab).then(|| joined.settled())
    }
}
