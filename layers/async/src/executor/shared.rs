//! [`Shared`]: the head of an executor's block, and the wakers, which reach it on any thread.
//!
//! # Rules
//! 1. The block begins with a [`Shared`]. Its nodes lie at [`NODES_AT`], one for each index. They
//!    are written before the first handle exists and then changed by atomics only, so any thread
//!    may refer to them.
//! 2. Each [`SharedRef`] and each waker is a user. The block is freed after its last user.
//! 3. A waker's pointer points to a node, with the provenance of the whole block.

#![allow(unsafe_code, reason = "a counted block, and raw wakers")]

use core::alloc::Layout;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;
use core::task::{RawWaker, RawWakerVTable, Waker};

use allocator_api2::alloc::Allocator;
use loom_core::error::OpenError;

use super::ready::{Node, Ready};
use super::users::Users;

pub(super) struct Shared {
    pub(super) ready: Ready,
    users: Users,
    nodes: u32,
    owner_at: usize,
    free: unsafe fn(NonNull<Shared>),
}

const NODES_AT: usize = size_of::<Shared>().next_multiple_of(align_of::<Node>());

struct Owner<A> {
    layout: Layout,
    alloc: A,
}

pub(super) struct SharedRef(NonNull<Shared>);

#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) layout: Layout,
    owner_at: usize,
    nodes: u32,
}

impl Plan {
    pub(super) fn of<A>(nodes: u32) -> Result<Self, OpenError> {
        let array = Layout::array::<Node>(nodes as usize).map_err(|_| OpenError::Size)?;
        let head = Layout::new::<Shared>();
        let (layout, at) = head.extend(array).map_err(|_| OpenError::Size)?;
        debug_assert_eq!(at, NODES_AT);
        let (layout, owner_at) = layout.extend(Layout::new::<Owner<A>>()).map_err(|_| OpenError::Size)?;
        Ok(Plan { layout, owner_at, nodes })
    }

    pub(super) fn add(&mut self, part: Layout) -> Result<usize, OpenError> {
        let (layout, at) = self.layout.extend(part).map_err(|_| OpenError::Size)?;
        self.layout = layout;
        Ok(at)
    }
}

impl SharedRef {
    /// `Send`, because any thread may drop the last waker. `'static`, because wakers may stay
    /// forever.
    pub(super) fn new<A: Allocator + Send + 'static>(plan: Plan, alloc: A) -> Result<Self, OpenError> {
        let block = alloc.allocate(plan.layout).map_err(|_| OpenError::OutOfMemory)?.cast::<u8>();
        // SAFETY: within the block, by the plan.
        let owner = unsafe { block.add(plan.owner_at) }.cast::<Owner<A>>();
        // SAFETY: the plan has room for the owner.
        unsafe { owner.write(Owner { layout: plan.layout, alloc }) };
        // SAFETY: within the block, by the plan.
        let nodes = unsafe { block.add(NODES_AT) }.cast::<Node>();
        for index in 0..plan.nodes {
            // SAFETY: the plan has room for the nodes.
            let node = unsafe { nodes.add(index as usize) };
            // SAFETY: the plan has room for the nodes.
            unsafe { node.write(Node::new(index)) };
        }
        let head = block.cast::<Shared>();
        let shared = Shared {
            ready: Ready::new(),
            users: Users::one(),
            nodes: plan.nodes,
            owner_at: plan.owner_at,
            free: free::<A>,
        };
        // SAFETY: the block begins with room for the head.
        unsafe { head.write(shared) };
        Ok(SharedRef(head))
    }

    /// # Safety
    /// [`Plan::add`] returned `at` for this block.
    pub(super) const unsafe fn part(&self, at: usize) -> NonNull<u8> {
        // SAFETY: the caller guarantees `at`, within the block.
        unsafe { self.0.cast::<u8>().add(at) }
    }

    #[inline]
    pub(super) fn nodes(&self) -> &[Node] {
        // SAFETY: rule 1.
        let first = unsafe { self.0.byte_add(NODES_AT) }.cast::<Node>();
        // SAFETY: rules 1 and 2.
        unsafe { NonNull::slice_from_raw_parts(first, self.nodes as usize).as_ref() }
    }

    #[inline]
    pub(super) fn wake(&self, index: u32) {
        if let Some(node) = self.nodes().get(index as usize) {
            self.ready.wake(node);
        }
    }

    /// The waker is a user only if cloned.
    ///
    /// # Safety
    /// The block has a node with this index.
    #[inline]
    pub(super) unsafe fn with_waker<R>(&self, index: u32, with: impl FnOnce(&Waker) -> R) -> R {
        // SAFETY: rule 1. The caller guarantees that the node exists.
        let node = unsafe { self.0.byte_add(NODES_AT + index as usize * size_of::<Node>()) };
        // SAFETY: rule 3 is the contract of the table. The waker is not dropped and so no user.
        // `self` is a user.
        let waker = ManuallyDrop::new(unsafe { Waker::new(node.as_ptr().cast_const().cast(), &WAKER) });
        with(&waker)
    }
}

/// # Safety
/// The block has no user, and its allocator is an `A`.
unsafe fn free<A: Allocator>(head: NonNull<Shared>) {
    // SAFETY: rule 1.
    let owner_at = unsafe { head.as_ref() }.owner_at;
    // SAFETY: `SharedRef::new` wrote the owner there.
    let owner = unsafe { head.byte_add(owner_at) }.cast::<Owner<A>>();
    // SAFETY: read once, here.
    let Owner { layout, alloc } = unsafe { owner.read() };
    // SAFETY: allocated with this layout. Nodes and head need no drop.
    unsafe { alloc.deallocate(head.cast(), layout) };
}

impl Deref for SharedRef {
    type Target = Shared;

    #[inline]
    fn deref(&self) -> &Shared {
        // SAFETY: rules 1 and 2.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for SharedRef {
    #[inline]
    fn clone(&self) -> Self {
        self.users.add();
        SharedRef(self.0)
    }
}

impl Drop for SharedRef {
    #[inline]
    fn drop(&mut self) {
        if self.users.remove() {
            let free = self.free;
            // SAFETY: the last user has gone (rule 2). `new` stored the function for this
            // allocator.
            unsafe { free(self.0) };
        }
    }
}

static WAKER: RawWakerVTable = RawWakerVTable::new(
    |data| {
        // SAFETY: rule 3.
        let (shared, _) = unsafe { of(data) };
        let _ = ManuallyDrop::new((*shared).clone());
        RawWaker::new(data, &WAKER)
    },
    |data| {
        // SAFETY: rule 3.
        let (shared, node) = unsafe { of(data) };
        // The waker stays a user until after the wake-up.
        let shared = ManuallyDrop::into_inner(shared);
        shared.ready.wake(node);
    },
    |data| {
        // SAFETY: rule 3.
        let (shared, node) = unsafe { of(data) };
        shared.ready.wake(node);
    },
    |data| {
        // SAFETY: rule 3.
        let (shared, _) = unsafe { of(data) };
        drop(ManuallyDrop::into_inner(shared));
    },
);

/// The handle is the waker's use, dropped only with it.
///
/// # Safety
/// `data` is the pointer of a waker (rule 3) that outlives the use of the node.
#[inline]
unsafe fn of<'a>(data: *const ()) -> (ManuallyDrop<SharedRef>, &'a Node) {
    let node = data.cast::<Node>();
    // SAFETY: rule 3. The waker is a user (rule 2).
    let place = unsafe { &*node };
    // SAFETY: rules 1 and 3.
    let first = unsafe { node.sub(place.index() as usize) };
    // SAFETY: rules 1 and 3.
    let head = unsafe { first.byte_sub(NODES_AT) };
    // SAFETY: within a block, so not null.
    let head = unsafe { NonNull::new_unchecked(head.cast::<Shared>().cast_mut()) };
    (ManuallyDrop::new(SharedRef(head)), place)
}
