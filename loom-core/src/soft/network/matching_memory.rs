//! Posted receives and the matching of messages by two [tag matchers](crate::engine::tag_matcher):
//! one for messages without tags, by source only, and one for tagged messages.

#![allow(unsafe_code, reason = "lays tables out in the network's memory")]

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::{self, NonNull};

use crate::buffer::Lent;
use crate::engine::tag_matcher::{
    Index, Line, Link, Memory, NONE, Pattern, Posted, PostedReceives, Table, UnexpectedMessages, View, Waiting, fill,
    posted_lines, views_shift, waiting_lines,
};
use crate::error::OpenError;
use crate::soft::shared::list::NIL;
use crate::storage::{array, extend};
use crate::transport::{Context, Msg};
use crate::vocabulary::CompletionFlags;

#[derive(Clone, Copy, Debug)]
pub(crate) struct RecvBuffer {
    pub(crate) ptr: *mut u8,
    pub(crate) len: usize,
    pub(crate) context: u64,
    /// Zero for one message into one buffer, or the minimum number of bytes with which a
    /// multi-receive continues, or `SCATTERED` and the place of the first of several buffers.
    pub(crate) min_left: usize,
}

const SCATTERED: usize = 1 << (usize::BITS - 1);

impl RecvBuffer {
    pub(crate) const NONE: RecvBuffer = RecvBuffer { ptr: ptr::null_mut(), len: 0, context: 0, min_left: 0 };

    #[inline]
    pub(crate) fn of(lent: &Lent, context: Context) -> Self {
        RecvBuffer { ptr: lent.ptr.as_ptr(), len: lent.len, context: context.addr(), min_left: 0 }
    }

    pub(crate) fn first_of(msg: &Msg<'_>, min_left: usize) -> Self {
        let (ptr, len) = msg.pieces.first().map_or((ptr::null_mut(), 0), |lent| (lent.ptr.as_ptr(), lent.len));
        RecvBuffer { ptr, len, context: msg.context.addr(), min_left }
    }

    pub(crate) const MOST_LEFT: usize = SCATTERED - 1;

    #[inline]
    pub(crate) const fn is_multi(&self) -> bool {
        self.min_left != 0 && !self.is_scattered()
    }

    #[inline]
    pub(crate) const fn is_scattered(&self) -> bool {
        self.min_left & SCATTERED != 0
    }

    pub(crate) const fn scattered_over(self, first: u32) -> Self {
        RecvBuffer { min_left: SCATTERED | first as usize, ..self }
    }

    #[expect(clippy::cast_possible_truncation, reason = "the number of a place, as it was put there")]
    pub(crate) const fn first_piece(&self) -> u32 {
        if self.is_scattered() { (self.min_left & !SCATTERED) as u32 } else { NIL }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecvKind {
    /// Free, or a further buffer of another receive.
    Other,
    /// Posted receive without tag.
    Plain,
    /// Posted receive with tag.
    Tagged,
    /// Claimed message. `len` is the number of its cell.
    Claimed,
}

impl RecvKind {
    #[inline]
    pub(crate) const fn posted(kind: usize) -> Self {
        if kind == 0 { RecvKind::Plain } else { RecvKind::Tagged }
    }

    pub(crate) const fn kind(self) -> Option<usize> {
        match self {
            RecvKind::Plain => Some(0),
            RecvKind::Tagged => Some(1),
            RecvKind::Other | RecvKind::Claimed => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Receive {
    /// Stored word by word: a store of two words at once would wait for the stores of each.
    ptr: Cell<*mut u8>,
    len: Cell<usize>,
    pub(crate) context: Cell<u64>,
    min_left: Cell<usize>,
    /// Next free place, or next buffer of one receive.
    pub(crate) next: Cell<u32>,
    pub(crate) used: Cell<RecvKind>,
}

impl Receive {
    pub(crate) fn before(next: u32, places: u32) -> Self {
        let next = if next == places { NIL } else { next };
        let RecvBuffer { ptr, len, context, min_left } = RecvBuffer::NONE;
        Receive {
            ptr: Cell::new(ptr),
            len: Cell::new(len),
            context: Cell::new(context),
            min_left: Cell::new(min_left),
            next: Cell::new(next),
            used: Cell::new(RecvKind::Other),
        }
    }

    #[inline]
    pub(crate) fn room(&self) -> RecvBuffer {
        let (ptr, len) = (self.ptr.get(), self.len.get());
        RecvBuffer { ptr, len, context: self.context.get(), min_left: self.min_left.get() }
    }

    #[inline(always)]
    pub(crate) fn set_room(&self, room: RecvBuffer) {
        self.ptr.set(room.ptr);
        self.len.set(room.len);
        self.context.set(room.context);
        self.min_left.set(room.min_left);
    }
}

/// Kinds of messages, which are matched separately: without and with tag.
pub(crate) const KINDS: [CompletionFlags; 2] = [CompletionFlags::MSG, CompletionFlags::TAGGED];

#[inline]
pub(crate) const fn kind_of(flags: CompletionFlags) -> usize {
    flags.contains(CompletionFlags::TAGGED) as usize
}

const MASKS: u32 = 6;

const VIEWS_SHIFT: u32 = views_shift(MASKS);
const VIEWS: u32 = 1 << VIEWS_SHIFT;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits {
    places: Table<Waiting>,
    links: Table<Link>,
}

pub(crate) struct WaitsLayout {
    pub(crate) layout: Layout,
    links_at: usize,
    places: u32,
    links: u32,
}

impl WaitsLayout {
    pub(crate) fn new(cells: u32) -> Result<Self, OpenError> {
        let links = cells.checked_mul(VIEWS).filter(|links| *links < NONE).ok_or(OpenError::Size)?;
        let (layout, links_at) = extend(array::<Waiting>(cells as usize)?, array::<Link>(links as usize)?)?;
        Ok(WaitsLayout { layout, links_at, places: cells, links })
    }

    /// # Safety
    /// The memory has the layout, and stays while the places are used. One thread at a time uses
    /// each place, and only by numbers of cells.
    pub(crate) unsafe fn build(&self, memory: NonNull<u8>) -> Waits {
        // SAFETY: the layout begins with the places. The caller guarantees the memory.
        let places = unsafe { fill(memory, self.places, |_| Waiting::new()) };
        // SAFETY: within the layout.
        let links = unsafe { memory.add(self.links_at) };
        // SAFETY: the layout has the links here. The caller guarantees the memory.
        let links = unsafe { fill(links, self.links, |_| Link::new()) };
        Waits { places, links }
    }
}

#[derive(Debug)]
pub(crate) struct Matching {
    /// Places for receives, linked as free places.
    pub(crate) receives: Table<Receive>,
    /// Place of the last receive posted with a context that maps here.
    pub(crate) by_context: Table<Cell<u32>>,
    /// Posted receives, for each of the `KINDS`.
    pub(crate) posted: [PostedReceives; 2],
    pub(crate) unexpected: [UnexpectedMessages; 2],
}

pub(crate) struct MatchingLayout {
    pub(crate) layout: Layout,
    receives: u32,
    contexts: u32,
    lines: [u32; 4],
    posted_at: usize,
    patterns_at: usize,
    views_at: usize,
    lines_at: usize,
    contexts_at: usize,
}

impl MatchingLayout {
    pub(crate) fn new(rx_depth: u32, tx_depth: u32, cells: u32) -> Result<Self, OpenError> {
        let contexts =
            rx_depth.checked_next_power_of_two().filter(|contexts| *contexts < NONE).ok_or(OpenError::Size)?;
        let senders = 4;
        let lines = [senders, posted_lines(rx_depth)?, senders, waiting_lines(tx_depth.saturating_mul(4).min(cells))?];
        let all_lines = lines.iter().try_fold(0u32, |sum, lines| sum.checked_add(*lines)).ok_or(OpenError::Size)?;
        let receives = rx_depth as usize;
        let (layout, posted_at) = extend(array::<Receive>(receives)?, array::<Posted>(receives)?)?;
        let (layout, patterns_at) = extend(layout, array::<Pattern>(receives + 1)?)?;
        let (layout, views_at) = extend(layout, array::<Cell<View>>(2 * VIEWS as usize)?)?;
        let (layout, lines_at) = extend(layout, array::<Line>(all_lines as usize)?)?;
        let (layout, contexts_at) = extend(layout, array::<Cell<u32>>(contexts as usize)?)?;
        let layout = layout.pad_to_align();
        Ok(MatchingLayout {
            layout,
            receives: rx_depth,
            contexts,
            lines,
            posted_at,
            patterns_at,
            views_at,
            lines_at,
            contexts_at,
        })
    }

    /// # Safety
    /// The memory has the layout, and stays while the matching is used, by one thread at a time.
    /// Numbers of receives come from its list, and numbers of messages are those of cells.
    pub(crate) unsafe fn build(&self, memory: NonNull<u8>, waits: Waits, seed: u64) -> Matching {
        let at = |offset: usize| {
            // SAFETY: callers pass offsets of the layout.
            unsafe { memory.add(offset) }
        };
        // SAFETY: the layout has the receives here. The caller guarantees the memory.
        let receives = unsafe { fill(memory, self.receives, |number| Receive::before(number + 1, self.receives)) };
        // SAFETY: the layout has the posted receives here. The caller guarantees the memory.
        let posted = unsafe { fill(at(self.posted_at), self.receives, |_| Posted::new()) };
        // SAFETY: the layout has the patterns here. The caller guarantees the memory.
        let pattern = unsafe { fill(at(self.patterns_at), 1, |_| Pattern::before(1, 1)) };
        let others = at(self.patterns_at + size_of::<Pattern>());
        // SAFETY: the layout has the patterns here. The caller guarantees the memory.
        let patterns = unsafe { fill(others, self.receives, |number| Pattern::before(number + 1, self.receives)) };
        let views = [0, 1].map(|kind| {
            let views = at(self.views_at + kind * VIEWS as usize * size_of::<Cell<View>>());
            // SAFETY: the layout has the views here. The caller guarantees the memory.
            unsafe { fill(views, VIEWS, |_| Cell::new(UnexpectedMessages::NO_VIEW)) }
        });
        let mut next = self.lines_at;
        let [posted_plain, posted_tagged, plain, tagged] = self.lines.map(|lines| {
            // SAFETY: the layout has the lines here. The caller guarantees the memory.
            let table = unsafe { fill(at(next), lines, |_| Line::new()) };
            next += lines as usize * size_of::<Line>();
            Index::new(table, seed)
        });
        // SAFETY: the layout has the contexts here. The caller guarantees the memory.
        let by_context = unsafe { fill(at(self.contexts_at), self.contexts, |_| Cell::new(0)) };
        let memory = views.map(|views| Memory { places: waits.places, links: waits.links, views });
        let [of_plain, of_tagged] = memory;
        Matching {
            receives,
            by_context,
            posted: [
                PostedReceives::new(posted, pattern, posted_plain),
                PostedReceives::new(posted, patterns, posted_tagged),
            ],
            unexpected: [
                UnexpectedMessages::new(of_plain, plain, false),
                UnexpectedMessages::new(of_tagged, tagged, true),
            ],
        }
    }
}
