//! The engine, and the list of libfabric's software providers.

use loom_core::allocator_api2::alloc::Global;
use loom_core::engine::tag_matcher::{Envelope, TagMatcher, TagMatcherAttr, Want};

/// Capacity of a side.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) receives: u32,
    pub(crate) messages: u32,
}

/// Seeds of the engine's hash. A result for one must apply to the others. Times are measured with
/// the first.
pub(crate) const SEEDS: [u64; 3] = [42, 3, 12];

/// A matcher. Requested partners exist.
pub(crate) trait Side {
    fn post(&mut self, want: Want);
    /// A message arrives and takes its receive.
    fn take_receive(&mut self, envelope: &Envelope);
    fn keep(&mut self, envelope: Envelope);
    /// A receive is posted and takes its message.
    fn take_message(&mut self, want: &Want);
}

pub(crate) struct Engine(TagMatcher<Global>);

impl Engine {
    pub(crate) fn new(size: Size, seed: u64) -> Self {
        let attr = TagMatcherAttr { receives: size.receives, messages: size.messages, seed, ..TagMatcherAttr::DEFAULT };
        Engine(TagMatcher::new_in(attr, Global).expect("there is memory"))
    }
}

impl Side for Engine {
    fn post(&mut self, want: Want) {
        self.0.post(want).expect("there is a place");
    }

    fn take_receive(&mut self, envelope: &Envelope) {
        let receive = self.0.receive_for(envelope).expect("it was posted");
        self.0.remove_receive(receive);
    }

    fn keep(&mut self, envelope: Envelope) {
        self.0.keep(envelope).expect("there is a place");
    }

    fn take_message(&mut self, want: &Want) {
        let message = self.0.message_for(want).expect("it waits");
        self.0.remove_message(message);
    }
}

/// No entry.
const NIL: u32 = u32::MAX;

struct Entry<V> {
    value: V,
    next: u32,
}

/// A queue of linked entries from a pool, oldest first.
struct Queue<V> {
    entries: Vec<Entry<V>>,
    first: u32,
    last: u32,
    free: u32,
}

impl<V> Queue<V> {
    fn new(places: u32) -> Self {
        Queue { entries: Vec::with_capacity(places as usize), first: NIL, last: NIL, free: NIL }
    }

    fn append(&mut self, value: V) {
        let entry = Entry { value, next: NIL };
        let at = match self.free {
            NIL => {
                self.entries.push(entry);
                u32::try_from(self.entries.len() - 1).expect("there are not so many")
            }
            free => {
                self.free = self.entries[free as usize].next;
                self.entries[free as usize] = entry;
                free
            }
        };
        match self.last {
            NIL => self.first = at,
            last => self.entries[last as usize].next = at,
        }
        self.last = at;
    }

    /// Removes the oldest matching entry.
    fn take(&mut self, is_wanted: impl Fn(&V) -> bool) {
        let (mut before, mut at) = (NIL, self.first);
        while !is_wanted(&self.entries[at as usize].value) {
            (before, at) = (at, self.entries[at as usize].next);
        }
        let next = std::mem::replace(&mut self.entries[at as usize].next, self.free);
        self.free = at;
        match before {
            NIL => self.first = next,
            before => self.entries[before as usize].next = next,
        }
        if next == NIL {
            self.last = before;
        }
    }
}

pub(crate) struct List {
    posted: Queue<Want>,
    unexpected: Queue<Envelope>,
}

impl List {
    pub(crate) fn new(size: Size) -> Self {
        List { posted: Queue::new(size.receives), unexpected: Queue::new(size.messages) }
    }
}

impl Side for List {
    fn post(&mut self, want: Want) {
        self.posted.append(want);
    }

    fn take_receive(&mut self, envelope: &Envelope) {
        self.posted.take(|want| want.accepts(envelope));
    }

    fn keep(&mut self, envelope: Envelope) {
        self.unexpected.append(envelope);
    }

    fn take_message(&mut self, want: &Want) {
        self.unexpected.take(|envelope| want.accepts(envelope));
    }
}
