//! [`Store`]: the values of a server, in memory of a bounded size.

use std::collections::HashMap;

use crate::node::Bytes;

/// Values by key. Keys and values have at most `limit` bytes together.
#[derive(Debug)]
pub(crate) struct Store {
    values: HashMap<Bytes, Bytes>,
    limit: usize,
    used: usize,
}

/// Bytes that a value may have which is on its way. It is to be given to [`Store::insert`] or [`Store::release`].
#[derive(Debug)]
#[must_use]
pub(crate) struct Reserved(usize);

impl Store {
    pub(crate) fn new(limit: usize) -> Self {
        Store { values: HashMap::new(), limit, used: 0 }
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<&Bytes> {
        self.values.get(key)
    }

    /// Room for a key and a value, if there is any. The value that it replaces keeps its own until then.
    pub(crate) fn reserve(&mut self, key: &[u8], len: usize) -> Option<Reserved> {
        let more = key.len().checked_add(len)?;
        self.used = self.used.checked_add(more).filter(|used| *used <= self.limit)?;
        Some(Reserved(more))
    }

    pub(crate) fn release(&mut self, Reserved(len): Reserved) {
        self.used -= len;
    }

    pub(crate) fn insert(&mut self, Reserved(len): Reserved, key: &[u8], value: Bytes) {
        debug_assert_eq!(len, key.len() + value.len());
        self.remove(key);
        self.values.insert(key.to_vec(), value);
    }

    /// Says whether there was a value.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        let Some(value) = self.values.remove(key) else { return false };
        self.used -= key.len() + value.len();
        true
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn used(&self) -> usize {
        self.used
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(store: &mut Store, key: &[u8], len: usize) -> bool {
        let reserved = store.reserve(key, len);
        reserved.map(|reserved| store.insert(reserved, key, vec![1; len])).is_some()
    }

    #[test]
    fn memory_is_bounded_and_comes_back() {
        let mut store = Store::new(100);
        assert!(put(&mut store, b"a", 49) && put(&mut store, b"b", 49));
        assert!(!put(&mut store, b"c", 0) && !put(&mut store, b"", usize::MAX));
        assert!(store.remove(b"a") && !store.remove(b"a"));
        let Some(reserved) = store.reserve(b"c", 49) else { panic!("there is room") };
        assert!(!put(&mut store, b"d", 0));
        store.release(reserved);
        // A value that replaces another.
        assert!(put(&mut store, b"b", 20));
        assert_eq!((store.len(), store.used(), store.get(b"b").map(Vec::len)), (1, 21, Some(20)));
    }
}
