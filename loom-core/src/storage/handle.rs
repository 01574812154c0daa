//! [`Handle`]: a counted reference to an object in a block of its own.
//!
//! The block holds the counts, the object, and the allocator.
//!
//! # Rules
//! 1. An object is open as long as it has a handle, and keeps handles of its parents.
//! 2. Dropping the last handle ends its object ([`Object::end`]): it closes the raw resources,
//!    drops the object, and then frees the block. No other reference to the block exists then.
//! 3. A raw resource that could not be closed stays open, and so must all objects that it uses:
//!    they are [left](Handle::leave). After its last handle, a left object frees its block without
//!    closing, and leaves its parent.
//! 4. An unclosed resource may still use an object's block. The object then [keeps](Ended::Kept)
//!    the block and its own handles.
//! 5. Handles of objects that stay on one thread ([`Object::ONE_THREAD`]) count without atomics,
//!    and are neither `Send` nor `Sync`. Code moves all of them at once to another thread.
//! 6. In a forked child, the last handle of a parent's object leaks its copy, and takes no locks,
//!    which a thread that the child lacks may hold.

#![allow(unsafe_code, reason = "objects in blocks that are shared and counted")]

use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

use allocator_api2::alloc::Allocator;

use crate::error::OpenError;
use crate::storage::{Block, extend};
use crate::util::count::SharedCount;
use crate::util::debug::debug_struct;

/// Begin of each block.
pub(crate) struct Head {
    handles: SharedCount,
    /// Number of the handles that are [`Bond`]s.
    bonds: SharedCount,
    /// Offset of the block's owner, in bytes.
    block_at: u32,
    left: AtomicBool,
    one_thread: bool,
    /// Ends the object behind this head, by rule 2.
    end: unsafe fn(NonNull<Head>),
}

impl Head {
    fn unbind(&self) {
        if !self.left.load(Ordering::Relaxed) {
            self.bonds.remove(false);
        }
    }
}

#[repr(C)]
pub(crate) struct HandleBlock<V: ?Sized> {
    head: Head,
    value: V,
}

impl<V> HandleBlock<V> {
    pub(crate) const VALUE_AT: usize = core::mem::offset_of!(Self, value);

    /// # Safety
    /// The object lies in a place, which the pointer may also access.
    pub(crate) const unsafe fn of(value: NonNull<V>) -> NonNull<Self> {
        // SAFETY: the caller guarantees that the object lies in an accessible place.
        unsafe { value.byte_sub(Self::VALUE_AT) }.cast()
    }
}

impl<V: ?Sized> HandleBlock<V> {
    /// # Safety
    /// The place lies in a block.
    pub(crate) const unsafe fn value(this: NonNull<Self>) -> NonNull<V> {
        // SAFETY: the caller guarantees that the place lies in a block.
        let value = unsafe { &raw mut (*this.as_ptr()).value };
        // SAFETY: a field in a block is not null.
        unsafe { NonNull::new_unchecked(value) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Free,
    /// The block is kept (rule 4).
    Kept,
}

/// # Safety
/// `place` returns the place that the head begins.
pub(crate) unsafe trait Placed {
    /// # Safety
    /// The head is that of an object of this type.
    unsafe fn place(head: NonNull<Head>) -> NonNull<HandleBlock<Self>>;
}

// SAFETY: a place begins with its head.
unsafe impl<V> Placed for V {
    unsafe fn place(head: NonNull<Head>) -> NonNull<HandleBlock<Self>> {
        head.cast()
    }
}

pub(crate) trait Object: Placed {
    const ONE_THREAD: bool;

    /// Rule 6: `false` in a forked child of the process that opened the object.
    fn is_here(&self) -> bool {
        true
    }

    /// Closes the raw resources, unless the object is left (rule 3). May run user code, which may
    /// unwind.
    ///
    /// # Safety
    /// Called once, after the last handle is dropped. The object is only dropped after this.
    unsafe fn end(_this: NonNull<Self>, _left: bool) -> Ended {
        Ended::Free
    }
}

pub(crate) struct Handle<'m, V: Object + ?Sized> {
    place: NonNull<HandleBlock<V>>,
    memory: PhantomData<&'m ()>,
}

/// Object with handles that threads may share.
#[diagnostic::on_unimplemented(
    message = "this object stays on the thread that opened it",
    label = "a queue, its endpoints, counters and event queues are used by one thread",
    note = "open them on the thread that uses them, or hand over a whole queue without counters and event queues: `Cq::park`"
)]
pub(crate) trait CrossesThreads: Send + Sync {}

// SAFETY: the counts are atomic (rule 5). The last handle drops the object and uses the allocator,
// which is `Send` (`Unfilled::new`).
unsafe impl<V: Object + CrossesThreads + ?Sized> Send for Handle<'_, V> {}
// SAFETY: the counts are atomic (rule 5), so a shared handle can be cloned. The object is
// `Send + Sync`.
unsafe impl<V: Object + CrossesThreads + ?Sized> Sync for Handle<'_, V> {}

impl<V: Object + ?Sized> Handle<'_, V> {
    #[inline]
    fn head(&self) -> &Head {
        // SAFETY: the handle keeps its block (rule 2).
        unsafe { &(*self.place.as_ptr()).head }
    }

    /// The caller prevents new handles while it relies on the result.
    pub(crate) fn count_is(&self, count: u32) -> bool {
        self.head().handles.is(count)
    }

    pub(crate) fn erased(&self) -> Erased {
        self.head().handles.add(self.head().one_thread);
        Erased(self.place.cast())
    }

    pub(crate) fn bond(&self) -> Bond {
        self.head().bonds.add(false);
        Bond(ManuallyDrop::new(self.erased()))
    }

    /// The caller prevents new bonds while it relies on the result.
    pub(crate) fn is_bound(&self) -> bool {
        !self.head().bonds.is(0)
    }

    /// Rule 3: a resource that uses the object stays open for good.
    pub(crate) fn leave(&self) {
        self.head().left.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_left(&self) -> bool {
        self.head().left.load(Ordering::Relaxed)
    }

    pub(crate) fn is(&self, other: &Handle<'_, V>) -> bool {
        self.place.cast::<u8>() == other.place.cast::<u8>()
    }

    pub(crate) fn value_ptr(&self) -> NonNull<V> {
        // SAFETY: the handle keeps its block (rule 2).
        unsafe { HandleBlock::value(self.place) }
    }

    /// # Safety
    /// It is dropped within the lifetime of this one.
    pub(crate) unsafe fn for_child(&self) -> Handle<'static, V> {
        self.head().handles.add(self.head().one_thread);
        Handle { place: self.place, memory: PhantomData }
    }

    /// # Safety
    /// The object's head counts one handle more than exist.
    pub(crate) const unsafe fn from_raw(place: NonNull<HandleBlock<V>>) -> Self {
        Handle { place, memory: PhantomData }
    }
}

impl<V: Object + ?Sized> Handle<'_, V> {
    /// # Safety
    /// The object has no other handle.
    pub(crate) unsafe fn as_mut(&mut self) -> &mut V {
        // SAFETY: the handle keeps the object (rule 2), and the caller guarantees that it is the
        // only one.
        unsafe { &mut (*self.place.as_ptr()).value }
    }
}

impl<V: Object + ?Sized> Clone for Handle<'_, V> {
    #[inline(always)]
    fn clone(&self) -> Self {
        self.head().handles.add(V::ONE_THREAD);
        Handle { ..*self }
    }
}

impl<V: Object + ?Sized> Deref for Handle<'_, V> {
    type Target = V;

    #[inline]
    fn deref(&self) -> &V {
        // SAFETY: the handle keeps the object (rule 2).
        unsafe { &(*self.place.as_ptr()).value }
    }
}

impl<V: Object + ?Sized> Drop for Handle<'_, V> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this handle counts, and is not used after this.
        unsafe { release(self.place.cast(), V::ONE_THREAD) };
    }
}

impl<V: Object + fmt::Debug + ?Sized> fmt::Debug for Handle<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// # Safety
/// The caller gives up one handle and does not use the object after this. `one_thread` is that of
/// the object.
#[inline(always)]
unsafe fn release(head: NonNull<Head>, one_thread: bool) {
    // SAFETY: the handle that is given up keeps its block (rule 2).
    let Head { handles, end, .. } = unsafe { head.as_ref() };
    let end = *end;
    if handles.remove(one_thread) {
        // SAFETY: the last handle was given up.
        unsafe { end(head) };
    }
}

pub(crate) struct Erased(NonNull<Head>);

impl Drop for Erased {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the handle keeps its block (rule 2).
        let Head { one_thread, .. } = unsafe { self.0.as_ref() };
        // SAFETY: this handle counts, and is not used after this.
        unsafe { release(self.0, *one_thread) };
    }
}

impl Erased {
    #[inline]
    pub(crate) const fn as_raw(&self) -> NonNull<Head> {
        self.0
    }

    /// # Safety
    /// The pointer is that of a handle, which is not dropped elsewhere.
    pub(crate) const unsafe fn from_raw(head: NonNull<Head>) -> Self {
        Erased(head)
    }

    /// # Safety
    /// The object is a `V`, and the handle stays for `'h`.
    pub(crate) unsafe fn object<'h, V: Object + ?Sized + 'h>(&self) -> &'h V {
        // SAFETY: the caller guarantees that the object is a `V`.
        let place = unsafe { V::place(self.0) };
        // SAFETY: the caller keeps the handle, and so the object (rule 2), for `'h`.
        unsafe { &(*place.as_ptr()).value }
    }
}

debug_struct!(Erased, |it| head: it.0);

/// Handle of an object that others are bound to.
pub(crate) struct Bond(ManuallyDrop<Erased>);

impl Bond {
    fn head(&self) -> &Head {
        // SAFETY: the bond keeps its block (rule 2).
        unsafe { self.0.0.as_ref() }
    }

    /// Rule 3: the bound resource stays open for good, and the object is never closed.
    pub(crate) fn leave(&self) {
        self.head().left.store(true, Ordering::Relaxed);
    }

    /// Leaks the last handle, and any that counts on one thread: this may be another.
    pub(crate) fn forget(self) {
        let head = self.head();
        head.unbind();
        if !head.one_thread {
            head.handles.remove_unless_last();
        }
        let _ = ManuallyDrop::new(self);
    }
}

impl Drop for Bond {
    fn drop(&mut self) {
        self.head().unbind();
        // SAFETY: dropped once, here.
        unsafe { ManuallyDrop::drop(&mut self.0) };
    }
}

debug_struct!(Bond, |it| object: it.0);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) layout: Layout,
    block_at: u32,
}

impl Plan {
    pub(crate) fn of<V, A: Allocator>() -> Result<Self, OpenError> {
        Self::of_place::<A>(Layout::new::<HandleBlock<V>>())
    }

    pub(crate) fn of_place<A: Allocator>(place: Layout) -> Result<Self, OpenError> {
        let (layout, block_at) = extend(place, Layout::new::<Block<A>>())?;
        Ok(Plan { layout, block_at: u32::try_from(block_at).map_err(|_| OpenError::Size)? })
    }

    pub(crate) fn add(&mut self, part: Layout) -> Result<usize, OpenError> {
        let (layout, at) = extend(self.layout, part)?;
        self.layout = layout;
        Ok(at)
    }

    pub(crate) const fn layout(&self) -> Layout {
        self.layout
    }
}

pub(crate) struct Unfilled<A: Allocator> {
    block: Block<A>,
    block_at: u32,
}

impl<A: Allocator + Send> Unfilled<A> {
    /// `Send`, because any thread may free the block.
    pub(crate) fn new(plan: Plan, alloc: A) -> Result<Self, OpenError> {
        Ok(Unfilled { block: Block::new(plan.layout, alloc)?, block_at: plan.block_at })
    }

    /// # Safety
    /// `part` is an offset of the plan.
    pub(crate) unsafe fn at(&self, part: usize) -> NonNull<u8> {
        // SAFETY: the caller guarantees that `part` is an offset of the plan.
        unsafe { self.block.ptr().add(part) }
    }

    pub(crate) fn ptr(&self) -> NonNull<u8> {
        self.block.ptr()
    }

    pub(crate) fn forget(self) {
        let _ = ManuallyDrop::new(self);
    }

    pub(crate) fn fill<'m, V: Object>(self, value: V) -> Handle<'m, V>
    where
        A: 'm,
    {
        let place = self.block.ptr().cast::<HandleBlock<V>>();
        // SAFETY: the block begins with room for the place.
        let room = unsafe { HandleBlock::value(place) };
        // SAFETY: the block begins with room for the place.
        unsafe { room.write(value) };
        // SAFETY: the object was just written.
        unsafe { self.filled(place) }
    }

    /// # Safety
    /// The object was written there, and the plan has its layout.
    pub(crate) unsafe fn filled<'m, V: Object + ?Sized>(self, place: NonNull<HandleBlock<V>>) -> Handle<'m, V>
    where
        A: 'm,
    {
        let Unfilled { block, block_at } = self;
        let head = Head {
            handles: SharedCount::one(),
            bonds: SharedCount::none(),
            left: AtomicBool::new(false),
            one_thread: V::ONE_THREAD,
            block_at,
            end: end::<V, A>,
        };
        // SAFETY: the plan has room for the block's owner there.
        let owner = unsafe { block.ptr().add(block_at as usize) }.cast::<Block<A>>();
        // SAFETY: the block begins with room for the head.
        unsafe { place.cast::<Head>().write(head) };
        // SAFETY: the plan has room for the block's owner there.
        unsafe { owner.write(block) };
        Handle { place, memory: PhantomData }
    }
}

/// # Safety
/// The head is that of a `V` in a block of an `A`, and the last handle was given up.
unsafe fn end<V: Object + ?Sized, A: Allocator>(head: NonNull<Head>) {
    /// Drops the object even if its end unwinds: it keeps handles of others.
    struct Value<V: ?Sized>(NonNull<V>);
    impl<V: ?Sized> Drop for Value<V> {
        fn drop(&mut self) {
            // SAFETY: dropped once, here.
            unsafe { self.0.drop_in_place() };
        }
    }
    // SAFETY: the caller guarantees the head of a `V`.
    let place = unsafe { V::place(head) };
    // SAFETY: a place lies in its block.
    let value = unsafe { HandleBlock::value(place) };
    // SAFETY: written in `filled`, and dropped below.
    if !unsafe { value.as_ref() }.is_here() {
        return;
    }
    // SAFETY: written in `filled`.
    let Head { left, block_at, .. } = unsafe { head.as_ref() };
    let (left, block_at) = (left.load(Ordering::Relaxed), *block_at);
    let value = Value(value);
    // SAFETY: the last handle is gone, and this is called once.
    if unsafe { V::end(value.0, left) } == Ended::Kept {
        let _ = ManuallyDrop::new(value);
        return;
    }
    // SAFETY: written in `filled` at this offset.
    let owner = unsafe { head.cast::<u8>().add(block_at as usize) }.cast::<Block<A>>();
    // SAFETY: written in `filled`, and read once. The block is freed after the object is dropped,
    // even if that unwinds.
    let block = unsafe { owner.read() };
    drop(value);
    drop(block);
}
