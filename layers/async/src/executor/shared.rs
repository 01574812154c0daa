//! [`Shared`]: the head of an executor's block, which wakers on any thread reach, and the wakers.
//!
//! The block comes from the caller's allocator: the head, the nodes of the tasks, whatever the executor needs besides, and the allocator.
//!
//! # Rules
//! 1. The block begins with a [`Shared`]; at [`NODES_AT`] lie its nodes, one for each index. They are written once, before the first
//!    handle exists, and changed through atomics alone: every thread may refer to them.
//! 2. Each [`SharedRef`] and each waker counts as one user, and no memory of the block is freed as long as there is one.
//! 3. A waker's pointer is that of a node, derived from the pointer to the whole block.

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

/// The head of a block.
pub(super) struct Shared {
    pub(super) ready: Ready,
    users: Users,
    nodes: u32,
    /// How far behind the head the block's [`Owner`] lies.
    owner_at: usize,
    /// Frees the block.
    free: unsafe fn(NonNull<Shared>),
}

/// How far behind the head the nodes lie.
const NODES_AT: usize = size_of::<Shared>().next_multiple_of(align_of::<Node>());

/// What gives a block back.
struct Owner<A> {
    layout: Layout,
    alloc: A,
}

/// A counted handle of a block.
pub(super) struct SharedRef(NonNull<Shared>);

/// What lies where in a block.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) layout: Layout,
    owner_at: usize,
    nodes: u32,
}

impl Plan {
    /// A block with `nodes` nodes, and an allocator of this type.
    pub(super) fn of<A>(nodes: u32) -> Result<Self, OpenError> {
        let array = Layout::array::<Node>(nodes as usize).map_err(|_| OpenError::Size)?;
        let head = Layout::new::<Shared>();
        let (layout, at) = head.extend(array).map_err(|_| OpenError::Size)?;
        debug_assert_eq!(at, NODES_AT);
        let (layout, owner_at) = layout.extend(Layout::new::<Owner<A>>()).map_err(|_| OpenError::Size)?;
        Ok(Plan { layout, owner_at, nodes })
    }

    /// Adds something, and says where it lies.
    pub(super) fn add(&mut self, part: Layout) -> Result<usize, OpenError> {
        let (layout, at) = self.layout.extend(part).map_err(|_| OpenError::Size)?;
        self.layout = layout;
        Ok(at)
    }
}

impl SharedRef {
    /// Takes a block from the allocator, and writes the head and the nodes.
    ///
    /// `Send`, because the block is freed on whichever thread drops the last waker; `'static`, because safe code may keep wakers for any time.
    pub(super) fn new<A: Allocator + Send + 'static>(plan: Plan, alloc: A) -> Result<Self, OpenError> {
        let block = alloc.allocate(plan.layout).map_err(|_| OpenError::OutOfMemory)?.cast::<u8>();
        // SAFETY: within the block, by the plan.
        let owner = unsafe { block.add(plan.owner_at) }.cast::<Owner<A>>();
        // SAFETY: the plan has room for the owner there.
        unsafe { owner.write(Owner { layout: plan.layout, alloc }) };
        // SAFETY: within the block, by the plan.
        let nodes = unsafe { block.add(NODES_AT) }.cast::<Node>();
        for index in 0..plan.nodes {
            // SAFETY: the plan has room for this many nodes.
            let node = unsafe { nodes.add(index as usize) };
            // SAFETY: as above.
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

    /// Where a part lies that was added to the plan of this block.
    ///
    /// # Safety
    /// `at` is what [`Plan::add`] returned.
    pub(super) const unsafe fn part(&self, at: usize) -> NonNull<u8> {
        // SAFETY: the caller's promise.
        unsafe { self.0.cast::<u8>().add(at) }
    }

    /// The nodes.
    #[inline]
    pub(super) fn nodes(&self) -> &[Node] {
        // SAFETY: rule 1.
        let first = unsafe { self.0.byte_add(NODES_AT) }.cast::<Node>();
        // SAFETY: rules 1 and 2.
        unsafe { NonNull::slice_from_raw_parts(first, self.nodes as usize).as_ref() }
    }

    /// Wakes the task of a node.
    #[inline]
    pub(super) fn wake(&self, index: u32) {
        if let Some(node) = self.nodes().get(index as usize) {
            self.ready.wake(node);
        }
    }

    /// Calls `with` with the waker of a node, which counts as a user only if it is cloned.
    ///
    /// # Safety
    /// The block has a node with this index.
    #[inline]
    pub(super) unsafe fn with_waker<R>(&self, index: u32, with: impl FnOnce(&Waker) -> R) -> R {
        // SAFETY: rule 1, and the caller's promise.
        let node = unsafe { self.0.byte_add(NODES_AT + index as usize * size_of::<Node>()) };
        // SAFETY: rule 3 makes it what the table expects. It is not dropped, so it counts as no user; `self` does as long as it is there.
        let waker = ManuallyDrop::new(unsafe { Waker::new(node.as_ptr().cast_const().cast(), &WAKER) });
        with(&waker)
    }
}

/// Frees a block.
///
/// # Safety
/// Its last user has gone, and its allocator is an `A`.
unsafe fn free<A: Allocator>(head: NonNull<Shared>) {
    // SAFETY: rule 1.
    let owner_at = unsafe { head.as_ref() }.owner_at;
    // SAFETY: written there by `SharedRef::new`.
    let owner = unsafe { head.byte_add(owner_at) }.cast::<Owner<A>>();
    // SAFETY: read once, here.
    let Owner { layout, alloc } = unsafe { owner.read() };
    // SAFETY: allocated with this layout from this allocator. Nodes and head have no destructor that does anything.
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
            // SAFETY: it was the last user, by rule 2; `new` has stored the function of this block's allocator.
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
        // The waker's own use of the block ends behind the wake-up.
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

/// The block and the node of a waker. The handle is the waker's own use of the block: it is dropped where the waker goes, and nowhere else.
///
/// # Safety
/// `data` is the pointer of a waker that is there, by rule 3. The node is used only as long as that is.
#[inline]
unsafe fn of<'a>(data: *const ()) -> (ManuallyDrop<SharedRef>, &'a Node) {
    let node = data.cast::<Node>();
    // SAFETY: rule 3; the waker counts, by rule 2.
    let place = unsafe { &*node };
    // SAFETY: rules 1 and 3.
    let first = unsafe { node.sub(place.index() as usize) };
    // SAFETY: as above.
    let head = unsafe { first.byte_sub(NODES_AT) };
    // SAFETY: it lies in a block, so it is not null.
    let head = unsafe { NonNull::new_unchecked(head.cast::<Shared>().cast_mut()) };
    (ManuallyDrop::new(SharedRef(head)), place)
}
