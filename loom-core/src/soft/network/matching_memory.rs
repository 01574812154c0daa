//! Posted receives and the matching of messages by two [tag matchers](crate::engine::tag_matcher):
//! one for messages without tags, by source only, and one for tagged messages.

#![allow(unsafe_code, reason = "lays tables out in the network's memory")]

use core::alloc::Layout;
use core::cell::Cell;
use core::ptr::{self, NonNull};

use crate::buffer::Lent;
use crate::engine::tag_matcher::{
    Index, Line, Link, Memory, Pattern, Posted, PostedReceives, Table, UnexpectedMessages, View, Waiting, posted_lines,
    table, views_shift, waiting_lines,
};
use crate::error::OpenError;
use crate::soft::shared::list::NIL;
use crate::storage::Part;
use crate::transport::{Context, Msg};
use crate::util::index_list::NONE;
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
    Plain,
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
    places: Part<Waiting>,
    links: Part<Link>,
}

impl WaitsLayout {
    pub(crate) fn new(cells: u32) -> Result<Self, OpenError> {
        let links = cells.checked_mul(VIEWS).filter(|links| *links < NONE).ok_or(OpenError::Size)?;
        let mut layout = Layout::new::<()>();
        let (places, links) = (Part::of(&mut layout, cells as usize)?, Part::of(&mut layout, links as usize)?);
        Ok(WaitsLayout { layout, places, links })
    }

    /// # Safety
    /// The memory has the layout, and stays while the places are used. One thread at a time uses
    /// each place, and only by numbers of cells.
    pub(crate) unsafe fn build(&self, memory: NonNull<u8>) -> Waits {
        // SAFETY: the layout has the places. The caller guarantees the memory.
        let places = unsafe { table(&self.places, memory, |_| Waiting::new()) };
        // SAFETY: the layout has the links. The caller guarantees the memory.
        let links = unsafe { table(&self.links, memory, |_| Link::new()) };
        Waits { places, links }
    }
}

#[derive(Debug)]
pub(crate) struct Matching {
    pub(crate) receives: Table<Receive>,
    pub(crate) by_context: Table<Cell<u32>>,
    pub(crate) posted: [PostedReceives; 2],
    pub(crate) unexpected: [UnexpectedMessages; 2],
}

pub(crate) struct MatchingLayout {
    pub(crate) layout: Layout,
    rx_depth: u32,
    receives: Part<Receive>,
    posted: Part<Posted>,
    pattern: Part<Pattern>,
    patterns: Part<Pattern>,
    views: [Part<Cell<View>>; 2],
    lines: [Part<Line>; 4],
    contexts: Part<Cell<u32>>,
}

impl MatchingLayout {
    pub(crate) fn new(rx_depth: u32, tx_depth: u32, cells: u32) -> Result<Self, OpenError> {
        const SENDERS: usize = 4;
        let contexts =
            rx_depth.checked_next_power_of_two().filter(|contexts| *contexts < NONE).ok_or(OpenError::Size)?;
        let (posted, waiting) = (posted_lines(rx_depth)?, waiting_lines(tx_depth.saturating_mul(4).min(cells))?);
        let mut layout = Layout::new::<()>();
        let receives = Part::of(&mut layout, rx_depth as usize)?;
        let posted_receives = Part::of(&mut layout, rx_depth as usize)?;
        let (pattern, patterns) = (Part::of(&mut layout, 1)?, Part::of(&mut layout, rx_depth as usize)?);
        let views = [Part::of(&mut layout, VIEWS as usize)?, Part::of(&mut layout, VIEWS as usize)?];
        let mut lines = |lines| Part::of(&mut layout, lines);
        let lines = [lines(SENDERS)?, lines(posted as usize)?, lines(SENDERS)?, lines(waiting as usize)?];
        let contexts = Part::of(&mut layout, contexts as usize)?;
        let layout = layout.pad_to_align();
        Ok(MatchingLayout {
            layout,
            rx_depth,
            receives,
            posted: posted_receives,
            pattern,
            patterns,
            views,
            lines,
            contexts,
        })
    }

    /// # Safety
    /// The memory has the layout, and stays while the matching is used, by one thread at a time.
    /// Numbers of receives come from its list, and numbers of messages are those of cells.
    pub(crate) unsafe fn build(&self, memory: NonNull<u8>, waits: Waits, seed: u64) -> Matching {
        // SAFETY: the layout has the receives. The caller guarantees the memory.
        let receives = unsafe { table(&self.receives, memory, |number| Receive::before(number + 1, self.rx_depth)) };
        // SAFETY: the layout has the posted receives. The caller guarantees the memory.
        let posted = unsafe { table(&self.posted, memory, |_| Posted::new()) };
        // SAFETY: the layout has the pattern. The caller guarantees the memory.
        let pattern = unsafe { table(&self.pattern, memory, |_| Pattern::before(1, 1)) };
        // SAFETY: the layout has the patterns. The caller guarantees the memory.
        let patterns = unsafe { table(&self.patterns, memory, |number| Pattern::before(number + 1, self.rx_depth)) };
        let [of_plain, of_tagged] = self.views.each_ref().map(|views| {
            // SAFETY: the layout has the views. The caller guarantees the memory.
            let views = unsafe { table(views, memory, |_| Cell::new(UnexpectedMessages::NO_VIEW)) };
            Memory { places: waits.places, links: waits.links, views }
        });
        let [posted_plain, posted_tagged, plain, tagged] = self.lines.each_ref().map(|lines| {
            // SAFETY: the layout has the lines. The caller guarantees the memory.
            Index::new(unsafe { table(lines, memory, |_| Line::new()) }, seed)
        });
        // SAFETY: the layout has the contexts. The caller guarantees the memory.
        let by_context = unsafe { table(&self.contexts, memory, |_| Cell::new(0)) };
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
