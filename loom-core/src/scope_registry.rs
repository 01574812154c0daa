//! [`ScopeRegistry`]: what a scope closes when it ends.

#![allow(unsafe_code, reason = "a list of what was opened, in the blocks of that")]

use core::cell::Cell;
use core::ptr::NonNull;

/// The queues and regions of a scope that are open, the youngest first.
pub(crate) struct ScopeRegistry(spin::Mutex<Option<NonNull<Node>>>);

// SAFETY: nodes are reached under the lock, and taken off the list before their objects go. They are ended when no other thread has
// handles of them (`End`).
unsafe impl Send for ScopeRegistry {}
// SAFETY: as above.
unsafe impl Sync for ScopeRegistry {}

/// The scope that something was opened by way of. It outlives that: handles of it live for `'m`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScopeRef(NonNull<ScopeRegistry>);

// SAFETY: a list is `Sync`.
unsafe impl Send for ScopeRef {}
// SAFETY: as above.
unsafe impl Sync for ScopeRef {}

impl ScopeRef {
    fn list(&self) -> &ScopeRegistry {
        // SAFETY: the scope outlives what has this.
        unsafe { self.0.as_ref() }
    }
}

/// What is closed first when a scope ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rank {
    Queue,
    Region,
}

/// The place of a queue or region in the list of its scope, if it has one. Used under the lock of that.
pub(crate) struct Node {
    scope: Cell<Option<ScopeRef>>,
    older: Cell<Option<NonNull<Node>>>,
    younger: Cell<Option<NonNull<Node>>>,
    object: &'static Closing,
}

/// How an object with a [`Node`] is closed.
pub(crate) struct Closing {
    pub(crate) rank: Rank,
    /// Closes what the node is in, when this scope ends. No code runs whose types may have handles of the scope: not that of buffers,
    /// exposed memory or allocators of objects that were opened by it.
    pub(crate) close: unsafe fn(NonNull<Node>, ScopeRef),
}

impl Node {
    /// # Safety
    /// `close` may be called with the node once, by its scope, if it is registered.
    pub(crate) const unsafe fn new(object: &'static Closing) -> Self {
        Node { scope: Cell::new(None), older: Cell::new(None), younger: Cell::new(None), object }
    }

    /// Puts an object that has just been opened on the list of its scope.
    ///
    /// # Safety
    /// The node stays where it is until it is unregistered, or its scope has closed it. `close` may reach by the pointer what it
    /// closes.
    pub(crate) unsafe fn register(this: NonNull<Node>, scope: Option<ScopeRef>) {
        let Some(place) = scope else { return };
        let mut first = place.list().0.lock();
        if let Some(older) = *first {
            // SAFETY: nodes on the list are there.
            unsafe { older.as_ref() }.younger.set(Some(this));
        }
        // SAFETY: the caller's promise.
        let node = unsafe { this.as_ref() };
        node.older.set(*first);
        node.scope.set(scope);
        *first = Some(this);
    }

    /// Takes an object that is about to be closed off the list of its scope, if it is on one.
    pub(crate) fn unregister(&self) {
        // Set by the thread that opens the object, and taken by the one that closes it.
        let Some(place) = self.scope.get() else { return };
        self.unlink(&mut place.list().0.lock());
    }

    fn unlink(&self, first: &mut Option<NonNull<Node>>) {
        let (older, younger) = (self.older.take(), self.younger.take());
        self.scope.set(None);
        if let Some(older) = older {
            // SAFETY: nodes on the list are there.
            unsafe { older.as_ref() }.younger.set(younger);
        }
        match younger {
            // SAFETY: as above.
            Some(younger) => unsafe { younger.as_ref() }.older.set(older),
            None => *first = older,
        }
    }
}

impl ScopeRegistry {
    pub(crate) const fn new() -> Self {
        ScopeRegistry(spin::Mutex::new(None))
    }

    /// What objects are told that are opened by way of the scope. Handles of them live no longer than this is borrowed.
    pub(crate) const fn place(&self) -> ScopeRef {
        ScopeRef(NonNull::from_ref(self))
    }

    /// Closes what is there when the value is dropped.
    pub(crate) const fn closed_at_end(&self) -> End<'_> {
        End(self)
    }

    /// Takes the youngest of this rank off the list.
    fn pop(&self, rank: Rank) -> Option<NonNull<Node>> {
        // No thread uses the scope any more. If the lock is held, this is a forked child, and a thread of its parent held it: the rest is leaked.
        let mut first = self.0.try_lock()?;
        let mut next = *first;
        while let Some(node) = next {
            // SAFETY: nodes on the list are there.
            let this = unsafe { node.as_ref() };
            if this.object.rank == rank {
                this.unlink(&mut first);
                return Some(node);
            }
            next = this.older.get();
        }
        None
    }
}

/// Closes what is open when the scope ends. No handle of it is used any more: handles live for `'m`, so that those which were not
/// dropped were forgotten, or belong to what was, or to memory or an allocator that a domain of the scope has. None of these is dropped
/// from here on.
pub(crate) struct End<'s>(&'s ScopeRegistry);

impl End<'_> {
    fn run(&self) {
        while let Some(node) = self.0.pop(Rank::Queue).or_else(|| self.0.pop(Rank::Region)) {
            // SAFETY: nodes on the list are there.
            let close = unsafe { node.as_ref() }.object.close;
            // SAFETY: taken off the list, so that it is called once.
            unsafe { close(node, self.0.place()) };
        }
    }
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        /// Goes on where a destructor unwinds: that of memory which another domain has kept.
        struct Rest<'a, 's>(&'a End<'s>);
        impl Drop for Rest<'_, '_> {
            fn drop(&mut self) {
                self.0.run();
            }
        }
        let rest = Rest(self);
        self.run();
        drop(rest);
    }
}
