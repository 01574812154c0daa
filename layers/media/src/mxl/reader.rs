use core::fmt;
use core::sync::atomic::{Ordering, fence};
use core::time::Duration;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rustix::thread::futex::{self, Timespec};

use super::files::{COUNTER, Files};
use super::{FlowDefinition, FlowId, GrainHeader, MxlError};
use crate::flow::Samples;
use crate::layout::FlowLayout;

/// Reader of a flow in shared memory. [`FlowWriter`](super::FlowWriter) has an example.
///
/// Writers do not wait. A copy that a writer may have changed is an error.
///
/// A file that is shortened while open ends the process (`SIGBUS`).
pub struct FlowReader {
    pub(super) files: Arc<Files>,
}

impl FlowReader {
    /// Opens a flow of a domain.
    ///
    /// # Errors
    /// [`MxlError::Stale`] if the flow does not exist, [`MxlError::Flow`] for short files or a header of another
    /// definition.
    #[doc(alias = "mxlCreateFlowReader")]
    pub fn open(domain: &Path, id: FlowId) -> Result<Self, MxlError> {
        Ok(FlowReader { files: Arc::new(Files::open(domain, id, false)?) })
    }

    /// Definition.
    #[must_use]
    pub fn definition(&self) -> &FlowDefinition {
        &self.files.definition
    }

    /// Layout of the ring.
    #[must_use]
    pub fn layout(&self) -> FlowLayout {
        self.files.layout
    }

    /// Newest committed grain, or end of the committed samples.
    #[must_use]
    pub fn head(&self) -> u64 {
        self.files.head()
    }

    /// Returns `true` if the flow has been deleted or replaced.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.files.is_stale()
    }

    /// Waits for `slices` slices of a grain, or its mark as invalid, and copies the first bytes of
    /// its slot: header and planes ([`GrainLayout`](crate::GrainLayout)). Slices that are not valid
    /// have any bytes. Returns the header before the copy.
    ///
    /// # Errors
    /// - [`MxlError::TooEarly`] without commit in time.
    /// - [`MxlError::TooLate`] if the grain has left the ring, before or after the copy. The oldest
    ///   slot belongs to the writer.
    /// - [`MxlError::Stale`] likewise, if the flow is deleted.
    /// - [`MxlError::Invalid`] for more bytes than a slot, or samples.
    #[doc(alias = "mxlFlowReaderGetGrain")]
    pub fn read_grain(&self, index: u64, slices: u16, out: &mut [u8], wait: Duration) -> Result<GrainHeader, MxlError> {
        const INVALID: MxlError =
            MxlError::Invalid("a flow of samples, or more bytes than a slot: pass at most `GrainLayout::len`");
        let FlowLayout::Grains(layout, _) = self.files.layout else { return Err(INVALID) };
        let at = self.files.slot(index).filter(|_| out.len() as u64 <= layout.len()).ok_or(INVALID)?;
        let header = || {
            let header = self.files.load_header(index);
            // After the header: a later grain's has a later head.
            let head = self.head();
            if index > head {
                return Err(MxlError::TooEarly);
            }
            let header = header.ok_or(MxlError::Flow("a grain's header has another version: use a writer of MXL 1"))?;
            if index < self.files.oldest(head) || header.index > index {
                return Err(MxlError::TooLate);
            }
            let valid = header.valid.min(layout.slices);
            if header.index < index || !header.is_invalid && valid < slices.min(layout.slices) {
                return Err(MxlError::TooEarly);
            }
            Ok(GrainHeader { valid, total: layout.slices, ..header })
        };
        let found = self.wait(wait, header)?;
        self.files.ring.window().copy_to(at, out).map_err(|_| INVALID)?;
        // Bytes of a later grain come with its index, or a later head.
        fence(Ordering::Acquire);
        let is_kept = header().is_ok_and(|now| now.valid >= found.valid);
        if is_kept { Ok(found) } else { Err(MxlError::TooLate) }
    }

    /// Waits for samples of a channel from number `start` on, and copies them.
    ///
    /// # Errors
    /// Those of [`read_grain`](Self::read_grain), also for another channel or parts of a sample.
    /// Readers have half of the ring.
    #[doc(alias = "mxlFlowReaderGetSamples")]
    pub fn read_samples(&self, channel: u16, start: u64, out: &mut [u8], wait: Duration) -> Result<(), MxlError> {
        const INVALID: MxlError = MxlError::Invalid(
            "no such channel, parts of a sample, or more than half of the ring: see `FlowReader::layout`",
        );
        let FlowLayout::Samples(layout) = self.files.layout else { return Err(INVALID) };
        let count = (out.len() / usize::from(layout.word)) as u64;
        let end = start.checked_add(count).filter(|_| count <= u64::from(layout.len / 2)).ok_or(INVALID)?;
        let is_kept = || {
            let head = self.head();
            if end > head {
                return Err(MxlError::TooEarly);
            }
            if start < self.files.oldest(head) { Err(MxlError::TooLate) } else { Ok(()) }
        };
        self.wait(wait, is_kept)?;
        let samples = Samples { window: self.files.ring.window(), layout };
        samples.copy_to(channel, start, out).map_err(|_| INVALID)?;
        fence(Ordering::Acquire);
        is_kept().map_err(|_| MxlError::TooLate)
    }

    fn wait<R>(&self, wait: Duration, ready: impl Fn() -> Result<R, MxlError>) -> Result<R, MxlError> {
        let begin = Instant::now();
        loop {
            let counter = self.files.data.futex(COUNTER);
            let seen = counter.map_or(0, |counter| counter.load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            match ready() {
                Err(MxlError::TooEarly) => {}
                result => return result,
            }
            let left = wait.saturating_sub(begin.elapsed());
            let Some(counter) = counter.filter(|_| !left.is_zero()) else {
                return Err(if self.files.is_stale() { MxlError::Stale } else { MxlError::TooEarly });
            };
            let left = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: i64::MAX, tv_nsec: 0 });
            // The loop bounds the wait.
            let _ = futex::wait(counter, futex::Flags::empty(), seen, Some(&left));
        }
    }
}

impl fmt::Debug for FlowReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowReader").field("definition", self.definition()).finish_non_exhaustive()
    }
}
