//! [`Handle`]: a counted reference to an object in a block of its own.
//!
//! The block comes from the caller's allocator. It holds the counts, the object, what the object needs besides (its tables and
//! queues), and the allocator, whose type the handle does not name.
//!
//! # Rules
//!
//! 1. An object is open as long as there is a handle of it. Objects keep handles of what they were opened from, so that these stay
//!    open as long.
//! 2. The last handle to go ends its object ([`Object::end`]), which closes what is open underneath, drops the object, and then
//!    gives the block back. There is no other reference to the block then.
//! 3. What could not be closed underneath stays open there, and so must everything that it uses: it is [left](Handle::leave).
//!    An object that is left gives its block back when its last handle goes, and closes nothing. It leaves its parent in turn.
//! 4. An object whose block is still used by what could not be closed [keeps](Ended::Kept) it, and its own handles with it.
//! 5. Handles of objects that stay on one thread ([`Object::ONE_THREAD`]) count without atomics: they are neither `Send` nor `Sync`.
//!    Code that moves them to another thread moves all of them at once.
//! 6. In a forked child, the last handle of an object of the parent leaks its copy with everything that it keeps: the block, handles, buffers in
//!    flight. Nothing is locked, because a thread that the child does not have may hold the lock.

#![allow(unsafe_code, reason = "objects in blocks that are shared and counted")]

use core::alloc::Layout;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};

use allocator_api2::alloc::Allocator;

use crate::count::SharedCount;
use crate::error::OpenError;
use crate::storage::{Block, extend};

/// What begins each block.
pub(crate) struct Head {
    handles: SharedCount,
    /// How many of the handles are [`Bond`]s.
    bonds: SharedCount,
    /// How far behind this the block's owner lies.
    block_at: u32,
    left: AtomicBool,
    one_thread: bool,
    /// Ends the object behind this head, by rule 2.
    end: unsafe fn(NonNull<Head>),
}

impl Head {
    /// One bond less. Where what was bound stays open for good, the object stays bound.
    fn unbind(&self) {
        if !self.left.load(Ordering::Relaxed) {
            self.bonds.remove(false);
        }
    }
}

/// A head and its object.
#[repr(C)]
pub(crate) struct HandleBlock<V: ?Sized> {
    head: Head,
    value: V,
}

impl<V> HandleBlock<V> {
    /// How far behind its head the object is.
    pub(crate) const VALUE_AT: usize = core::mem::offset_of!(Self, value);

    /// The place of an object.
    ///
    /// # Safety
    /// The object lies in one, which the pointer may reach, too.
    pub(crate) const unsafe fn of(value: NonNull<V>) -> NonNull<Self> {
        // SAFETY: the caller's promise.
        unsafe { value.byte_sub(Self::VALUE_AT) }.cast()
    }
}

impl<V: ?Sized> HandleBlock<V> {
    /// Where the object is.
    ///
    /// # Safety
    /// The place lies in a block.
    pub(crate) const unsafe fn value(this: NonNull<Self>) -> NonNull<V> {
        // SAFETY: the caller's promise.
        let value = unsafe { &raw mut (*this.as_ptr()).value };
        // SAFETY: a field in a block is not null.
        unsafe { NonNull::new_unchecked(value) }
    }
}

/// Whether an object's block can be given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Nothing refers to it any more.
    Free,
    /// Rule 4.
    Kept,
}

/// What can be behind a [`Handle`].
///
/// # Safety
/// `place` returns the place that the head begins.
pub(crate) unsafe trait Object {
    /// Whether its handles stay on one thread.
    const ONE_THREAD: bool;

    /// The place of this object.
    ///
    /// # Safety
    /// The head is that of an object of this type.
    unsafe fn place(head: NonNull<Head>) -> NonNull<HandleBlock<Self>>;

    /// Returns `false` in a forked child of the process that opened the object (rule 6).
    fn is_here(&self) -> bool {
        true
    }

    /// Closes what is open underneath; not if it is left (rule 3). User code may run, which may unwind.
    ///
    /// # Safety
    /// Called once, when the last handle has gone. The object is not used after this, but dropped.
    unsafe fn end(this: NonNull<Self>, left: bool) -> Ended;
}

/// A counted reference to an object, in memory that lives for `'m`.
pub(crate) struct Handle<'m, V: Object + ?Sized> {
    place: NonNull<HandleBlock<V>>,
    memory: PhantomData<&'m ()>,
}

/// An object whose handles threads may share. Those of others stay on the thread that opened it, and the compiler says so in one error
/// for each handle, not in one for each field.
#[diagnostic::on_unimplemented(
    message = "this object stays on the thread that opened it",
    label = "a queue, its endpoints, counters and event queues are used by one thread",
    note = "open them on the thread that uses them, or hand over a whole queue without counters and event queues: `Cq::park`"
)]
pub(crate) trait CrossesThreads: Send + Sync {}

// SAFETY: the counts are atomic (rule 5). The last handle drops the object and uses the allocator, which is `Send`
// (`Unfilled::new`).
unsafe impl<V: Object + CrossesThreads + ?Sized> Send for Handle<'_, V> {}
// SAFETY: as above: a shared handle can be cloned.
unsafe impl<V: Object + CrossesThreads + ?Sized> Sync for Handle<'_, V> {}

impl<V: Object + ?Sized> Handle<'_, V> {
    #[inline]
    fn head(&self) -> &Head {
        // SAFETY: rule 2: the block is there as long as this handle.
        unsafe { &(*self.place.as_ptr()).head }
    }

    /// Whether there are `count` handles. The caller keeps others from being made for as long as it acts upon the answer.
    pub(crate) fn count_is(&self, count: u32) -> bool {
        self.head().handles.is(count)
    }

    /// The same object, without its type.
    pub(crate) fn erased(&self) -> Erased {
        self.head().handles.add(self.head().one_thread);
        Erased(self.place.cast())
    }

    /// A handle that tells others that something is bound to the object.
    pub(crate) fn bond(&self) -> Bond {
        self.head().bonds.add(false);
        Bond(ManuallyDrop::new(self.erased()))
    }

    /// Whether something is bound to the object. The caller keeps others from being bound for as long as it acts upon the answer.
    pub(crate) fn is_bound(&self) -> bool {
        !self.head().bonds.is(0)
    }

    /// Rule 3: something that uses the object stays open for good.
    pub(crate) fn leave(&self) {
        self.head().left.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_left(&self) -> bool {
        self.head().left.load(Ordering::Relaxed)
    }

    /// Whether both are handles of one object.
    pub(crate) fn is(&self, other: &Handle<'_, V>) -> bool {
        self.place.cast::<u8>() == other.place.cast::<u8>()
    }

    /// Where the object is.
    pub(crate) fn value_ptr(&self) -> NonNull<V> {
        // SAFETY: rule 2: the place is there.
        unsafe { HandleBlock::value(self.place) }
    }

    /// A handle for what is opened on the object, and lies in memory that lives no longer.
    ///
    /// # Safety
    /// It is dropped within the lifetime of this one.
    pub(crate) unsafe fn for_child(&self) -> Handle<'static, V> {
        self.head().handles.add(self.head().one_thread);
        Handle { place: self.place, memory: PhantomData }
    }

    /// # Safety
    /// The object's head counts one handle more than there are.
    pub(crate) const unsafe fn from_raw(place: NonNull<HandleBlock<V>>) -> Self {
        Handle { place, memory: PhantomData }
    }
}

impl<V: Object + ?Sized> Handle<'_, V> {
    /// The object, of which there is no other handle.
    ///
    /// # Safety
    /// There is none.
    pub(crate) unsafe fn as_mut(&mut self) -> &mut V {
        // SAFETY: rule 2, and the caller's promise.
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
        // SAFETY: rule 2: the object is there as long as this handle.
        unsafe { &(*self.place.as_ptr()).value }
    }
}

impl<V: Object + ?Sized> Drop for Handle<'_, V> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this is a handle, and not used after this.
        unsafe { release(self.place.cast(), V::ONE_THREAD) };
    }
}

impl<V: Object + fmt::Debug + ?Sized> fmt::Debug for Handle<'_, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// One handle less.
///
/// # Safety
/// The caller gives one up, and does not use the object after this, whose handles stay on one thread or not.
#[inline(always)]
unsafe fn release(head: NonNull<Head>, one_thread: bool) {
    // SAFETY: rule 2: the block is there as long as the handle that is given up.
    let Head { handles, end, .. } = unsafe { head.as_ref() };
    let end = *end;
    if handles.remove(one_thread) {
        // SAFETY: it was the last one.
        unsafe { end(head) };
    }
}

/// A handle whose object has no name here.
pub(crate) struct Erased(NonNull<Head>);

impl Drop for Erased {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: rule 2.
        let Head { one_thread, .. } = unsafe { self.0.as_ref() };
        // SAFETY: this is a handle, and not used after this.
        unsafe { release(self.0, *one_thread) };
    }
}

impl Erased {
    /// The handle as a pointer, which counts.
    #[inline]
    pub(crate) const fn as_raw(&self) -> NonNull<Head> {
        self.0
    }

    /// # Safety
    /// The pointer is that of a handle, which is not dropped besides.
    pub(crate) const unsafe fn from_raw(head: NonNull<Head>) -> Self {
        Erased(head)
    }

    /// The object behind it.
    ///
    /// # Safety
    /// It is one of this type, and the handle stays for `'h`.
    pub(crate) unsafe fn object<'h, V: Object + ?Sized + 'h>(&self) -> &'h V {
        // SAFETY: the caller's promise.
        let place = unsafe { V::place(self.0) };
        // SAFETY: rule 2: the object is there as long as this handle.
        unsafe { &(*place.as_ptr()).value }
    }
}

impl fmt::Debug for Erased {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Erased")
    }
}

/// The handle by which something is bound to an object: an endpoint to its address vector, a region to its counter.
pub(crate) struct Bond(ManuallyDrop<Erased>);

impl Bond {
    fn head(&self) -> &Head {
        // SAFETY: rule 2.
        unsafe { self.0.0.as_ref() }
    }

    /// Rule 3: what is bound stays open for good. The object stays bound, and closes nothing when its last handle goes.
    pub(crate) fn leave(&self) {
        self.head().left.store(true, Ordering::Relaxed);
    }

    /// Gives the bond up, but never ends the object: the last handle is leaked, and so is one of those that count on one thread, which may
    /// be another.
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

impl fmt::Debug for Bond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bond")
    }
}

/// What lies where in a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    layout: Layout,
    block_at: u32,
}

impl Plan {
    /// An object, and an allocator of this type.
    pub(crate) fn of<V, A: Allocator>() -> Result<Self, OpenError> {
        Self::of_place::<A>(Layout::new::<HandleBlock<V>>())
    }

    /// As [`of`](Self::of), of an object whose place has this layout.
    pub(crate) fn of_place<A: Allocator>(place: Layout) -> Result<Self, OpenError> {
        let (layout, block_at) = extend(place, Layout::new::<Block<A>>())?;
        Ok(Plan { layout, block_at: u32::try_from(block_at).map_err(|_| OpenError::Size)? })
    }

    /// Adds something that the object needs, and says where it lies.
    pub(crate) fn add(&mut self, part: Layout) -> Result<usize, OpenError> {
        let (layout, at) = extend(self.layout, part)?;
        self.layout = layout;
        Ok(at)
    }

    /// The whole block.
    pub(crate) const fn layout(&self) -> Layout {
        self.layout
    }
}

/// A block whose object is not there yet. It is given back if that never comes.
pub(crate) struct Unfilled<A: Allocator> {
    block: Block<A>,
    block_at: u32,
}

impl<A: Allocator + Send> Unfilled<A> {
    /// `Send`, because the block is given back by whichever thread drops the last handle.
    pub(crate) fn new(plan: Plan, alloc: A) -> Result<Self, OpenError> {
        Ok(Unfilled { block: Block::new(plan.layout, alloc)?, block_at: plan.block_at })
    }

    /// Where a part of the plan lies.
    ///
    /// # Safety
    /// It is one of the plan.
    pub(crate) unsafe fn at(&self, part: usize) -> NonNull<u8> {
        // SAFETY: the caller's promise.
        unsafe { self.block.ptr().add(part) }
    }

    /// The block, leaked: what was opened in it could not be closed.
    pub(crate) fn forget(self) {
        let _ = ManuallyDrop::new(self);
    }

    /// Moves an object into the block, whose plan is of its type.
    pub(crate) fn fill<'m, V: Object>(self, value: V) -> Handle<'m, V>
    where
        A: 'm,
    {
        let place = self.block.ptr().cast::<HandleBlock<V>>();
        // SAFETY: the block begins with room for the place.
        let room = unsafe { HandleBlock::value(place) };
        // SAFETY: as above.
        unsafe { room.write(value) };
        // SAFETY: the object is there.
        unsafe { self.filled(place) }
    }

    /// The handle of the object at the begin of the block.
    ///
    /// # Safety
    /// It was written there, and the plan is of its layout.
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
        // SAFETY: as above.
        unsafe { owner.write(block) };
        Handle { place, memory: PhantomData }
    }
}

/// Rule 2.
///
/// # Safety
/// The head is that of a `V` in a block of an `A`, of which the last handle has gone.
unsafe fn end<V: Object + ?Sized, A: Allocator>(head: NonNull<Head>) {
    /// Drops the object, also when its end unwinds: it keeps handles of others.
    struct Value<V: ?Sized>(NonNull<V>);
    impl<V: ?Sized> Drop for Value<V> {
        fn drop(&mut self) {
            // SAFETY: dropped once, here.
            unsafe { self.0.drop_in_place() };
        }
    }
    // SAFETY: the caller's promise.
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
    // SAFETY: there is no handle any more; called once, here.
    if unsafe { V::end(value.0, left) } == Ended::Kept {
        let _ = ManuallyDrop::new(value);
        return;
    }
    // SAFETY: written in `filled`; read once, here.
    let owner = unsafe { head.cast::<u8>().add(block_at as usize) }.cast::<Block<A>>();
    // SAFETY: as above. The block is given back after the object was dropped, also when that unwinds.
    let block = unsafe { owner.read() };
    drop(value);
    drop(block);
}
