#![allow(unsafe_code, reason = "a list of what was opened, in the blocks of that")]

use core::cell::Cell;
use core::ptr::NonNull;

use crate::util::on_drop::for_each;

/// Open queues and regions of a scope, youngest first.
pub(crate) struct ScopeRegistry(spin::Mutex<Option<NonNull<Node>>>);

// SAFETY: nodes are accessed under the lock, and leave the list before their objects are dropped.
// `End` ends objects when other threads have no handles of them.
unsafe impl Send for ScopeRegistry {}
// SAFETY: see `Send`.
unsafe impl Sync for ScopeRegistry {}

/// Outlives its objects, because handles live for `'m`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScopeRef(pub(super) NonNull<ScopeRegistry>);

// SAFETY: `ScopeRegistry` is `Sync`.
unsafe impl Send for ScopeRef {}
// SAFETY: `ScopeRegistry` is `Sync`.
unsafe impl Sync for ScopeRef {}

impl ScopeRef {
    fn list(&self) -> &ScopeRegistry {
        // SAFETY: the scope outlives the objects with this reference.
        unsafe { self.0.as_ref() }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rank {
    Queue,
    Region,
}

/// Node in the list of a scope, used under its lock.
pub(crate) struct Node {
    scope: Cell<Option<ScopeRef>>,
    older: Cell<Option<NonNull<Node>>>,
    younger: Cell<Option<NonNull<Node>>>,
    object: &'static Closing,
}

pub(crate) struct Closing {
    pub(crate) rank: Rank,
    /// Runs no code of types that may have handles of the scope: buffers, exposed memory or
    /// allocators.
    pub(crate) close: unsafe fn(NonNull<Node>, ScopeRef),
}

impl Node {
    /// # Safety
    /// If the node is registered, its scope may call `close` with it once.
    pub(crate) const unsafe fn new(object: &'static Closing) -> Self {
        Node { scope: Cell::new(None), older: Cell::new(None), younger: Cell::new(None), object }
    }

    /// # Safety
    /// The node stays in place until it is unregistered or closed by its scope. `close` may access
    /// its object through the pointer.
    pub(crate) unsafe fn register(this: NonNull<Node>, scope: Option<ScopeRef>) {
        let Some(place) = scope else { return };
        let mut first = place.list().0.lock();
        if let Some(older) = *first {
            // SAFETY: a node on the list is valid.
            unsafe { older.as_ref() }.younger.set(Some(this));
        }
        // SAFETY: the caller guarantees that the node is valid.
        let node = unsafe { this.as_ref() };
        node.older.set(*first);
        node.scope.set(scope);
        *first = Some(this);
    }

    pub(crate) fn unregister(&self) {
        // Set by the opening thread, and cleared by the closing thread.
        let Some(place) = self.scope.get() else { return };
        self.unlink(&mut place.list().0.lock());
    }

    fn unlink(&self, first: &mut Option<NonNull<Node>>) {
        let (older, younger) = (self.older.take(), self.younger.take());
        self.scope.set(None);
        if let Some(older) = older {
            // SAFETY: a node on the list is valid.
            unsafe { older.as_ref() }.younger.set(younger);
        }
        match younger {
            // SAFETY: a node on the list is valid.
            Some(younger) => unsafe { younger.as_ref() }.older.set(older),
            None => *first = older,
        }
    }
}

impl ScopeRegistry {
    pub(crate) const fn new() -> Self {
        ScopeRegistry(spin::Mutex::new(None))
    }

    pub(crate) const fn place(&self) -> ScopeRef {
        ScopeRef(NonNull::from_ref(self))
    }

    pub(crate) const fn closed_at_end(&self) -> End<'_> {
        End(self)
    }

    fn pop(&self, rank: Rank) -> Option<NonNull<Node>> {
        // If the lock is held, this is a forked child, and the rest is leaked.
        let mut first = self.0.try_lock()?;
        let mut next = *first;
        while let Some(node) = next {
            // SAFETY: a node on the list is valid.
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

/// Handles left at the end were forgotten, or belong to forgotten objects or to a domain of the
/// scope. These are not dropped.
pub(crate) struct End<'s>(&'s ScopeRegistry);

impl Drop for End<'_> {
    fn drop(&mut self) {
        let left_open = || self.0.pop(Rank::Queue).or_else(|| self.0.pop(Rank::Region));
        // A destructor can unwind, of memory that another domain has kept.
        for_each(core::iter::from_fn(left_open), |node| {
            // SAFETY: the object is open, so its node is valid.
            let close = unsafe { node.as_ref() }.object.close;
            // SAFETY: removed from the list, so `close` is called once.
            unsafe { close(node, self.0.place()) };
        });
    }
}
