use core::fmt;
use core::sync::atomic::{Ordering, fence};
use std::path::Path;
use std::sync::Arc;

use loom_core::exposed::Window;
use rustix::thread::futex;

use super::files::{COUNTER, Files, HEAD, LAST_WRITE, now};
use super::{FlowDefinition, MxlError};
use crate::flow::Samples;
use crate::layout::FlowLayout;

/// Writer of a flow in shared memory.
///
/// A domain is a directory that the processes share. The last writer deletes the flow when it is
/// dropped. Writers of one flow are not arbitrated.
///
/// ```
/// use core::time::Duration;
/// use loom_media::mxl::{FlowReader, FlowWriter};
///
/// # let domain = std::env::temp_dir().join(format!("loom-mxl-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&domain)?;
/// let definition = r#"{
///     "id": "5fbec3b1-1b0f-417d-9059-8b94a47197ed", "label": "captions",
///     "tags": {"urn:x-nmos:tag:grouphint/v1.0": ["studio:captions"]},
///     "format": "urn:x-nmos:format:data", "media_type": "video/smpte291", "grain_rate": {"numerator": 25}
/// }"#;
/// let mut writer = FlowWriter::create(&domain, definition)?;
/// let reader = FlowReader::open(&domain, writer.definition().id)?;
/// writer.grain(100)?.copy_from(8192, b"caption")?;
/// writer.commit_grain(100, 4096, false)?;
/// let mut slot = [0; 8192 + 7];
/// let header = reader.read_grain(100, 4096, &mut slot, Duration::ZERO)?;
/// assert_eq!((header.index, &slot[8192..]), (100, &b"caption"[..]));
/// # drop(writer);
/// # std::fs::remove_dir(&domain)?;
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
pub struct FlowWriter {
    pub(super) files: Arc<Files>,
    has_committed_samples: bool,
}

impl FlowWriter {
    /// Creates a flow by its `flow_def.json`, or opens the existing one with its ring. A new ring
    /// has the history of the domain's `options.json`, 200 ms by default.
    ///
    /// # Errors
    /// Those of [`FlowReader::open`](super::FlowReader::open), and [`MxlError::Invalid`] if the
    /// flow has another rate or format.
    #[doc(alias = "mxlCreateFlowWriter")]
    pub fn create(domain: &Path, definition: &str) -> Result<Self, MxlError> {
        Ok(FlowWriter { files: Arc::new(Files::create(domain, definition)?), has_committed_samples: false })
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

    /// Newest committed grain, or end of the committed samples. 0 for a new flow.
    #[must_use]
    pub fn head(&self) -> u64 {
        self.files.head()
    }

    /// First grain or sample of readers, for [`Target::release`](crate::Target::release).
    #[must_use]
    pub fn oldest(&self) -> u64 {
        self.files.oldest(self.head())
    }

    /// Opens the slot of a grain to write: header and planes ([`GrainLayout`](crate::GrainLayout)).
    ///
    /// # Errors
    /// [`MxlError::TooLate`] below [`head`](Self::head), [`MxlError::Invalid`] for samples.
    #[doc(alias = "mxlFlowWriterOpenGrain")]
    pub fn grain(&mut self, index: u64) -> Result<Window<'_>, MxlError> {
        let at = self.files.slot(index).ok_or(NO_GRAINS)?;
        let FlowLayout::Grains(layout, _) = self.files.layout else { return Err(NO_GRAINS) };
        if index < self.head() {
            return Err(MxlError::TooLate);
        }
        if self.files.load_header(index).is_none_or(|header| header.index != index) {
            self.files.store_header(index, index, 0, false);
            // Readers with bytes of the grain find its index.
            fence(Ordering::Release);
        }
        let len = usize::try_from(layout.len()).map_err(|_| NO_GRAINS)?;
        self.files.ring.window().slice(at, len).map_err(|_| NO_GRAINS)
    }

    /// Completes the header of a grain, commits its first `valid` slices, and wakes readers.
    /// Skipped grains are marked as invalid.
    ///
    /// # Errors
    /// [`MxlError::TooLate`] below [`head`](Self::head), [`MxlError::Invalid`] for too many slices, or samples.
    #[doc(alias = "mxlFlowWriterCommitGrain")]
    pub fn commit_grain(&mut self, index: u64, valid: u16, is_invalid: bool) -> Result<(), MxlError> {
        let FlowLayout::Grains(layout, slots) = self.files.layout else { return Err(NO_GRAINS) };
        let head = self.head();
        if valid > layout.slices {
            return Err(MxlError::Invalid("a grain has fewer slices: commit at most those of its layout"));
        }
        if index < head {
            return Err(MxlError::TooLate);
        }
        let first = head.saturating_add(1).max(index.saturating_add(1).saturating_sub(slots.into()));
        for skipped in first..index {
            // A peer may have written a later grain there.
            if self.files.load_header(skipped).is_none_or(|header| header.index <= skipped) {
                self.files.store_header(skipped, skipped, 0, true);
            }
        }
        self.files.store_header(index, index, valid, is_invalid);
        self.files.data.store(HEAD, index);
        self.files.data.store(LAST_WRITE, now());
        self.wake();
        Ok(())
    }

    /// Samples to write.
    #[must_use]
    pub fn samples(&self) -> Option<Samples<'_>> {
        let FlowLayout::Samples(layout) = self.files.layout else { return None };
        Some(Samples { window: self.files.ring.window(), layout })
    }

    /// Commits samples, and wakes readers for each batch of 10 ms, or as the flow's header states.
    /// Samples skipped since this writer's last commit are cleared.
    ///
    /// # Errors
    /// [`MxlError::TooLate`] below [`head`](Self::head), [`MxlError::Invalid`] for more than half of the ring,
    /// or grains.
    #[doc(alias = "mxlFlowWriterCommitSamples")]
    pub fn commit_samples(&mut self, start: u64, count: u32) -> Result<(), MxlError> {
        const INVALID: MxlError =
            MxlError::Invalid("a flow of grains, or more samples than half of the ring: commit shorter blocks");
        let samples = self.samples().filter(|samples| count <= samples.layout.len / 2).ok_or(INVALID)?;
        let (head, layout) = (self.head(), samples.layout);
        let end = start.checked_add(count.into()).ok_or(INVALID)?;
        if start < head {
            return Err(MxlError::TooLate);
        }
        if self.has_committed_samples {
            let zeros = [0; 1024];
            let mut at = head.max(self.files.oldest(end));
            while at < start {
                let part = (start - at).min((zeros.len() / usize::from(layout.word)) as u64);
                let bytes = usize::try_from(part).unwrap_or(0) * usize::from(layout.word);
                for channel in 0..layout.channels {
                    samples.copy_from(channel, at, zeros.get(..bytes).unwrap_or(&[])).map_err(|_| INVALID)?;
                }
                at += part;
            }
        }
        self.has_committed_samples = true;
        self.files.data.store(HEAD, end);
        let (commit, sync) = (u64::from(self.files.batches.0), u64::from(self.files.batches.1));
        if end / sync > head / sync || end % sync > sync.saturating_sub(commit) {
            self.wake();
        }
        Ok(())
    }

    fn wake(&self) {
        if let Some(counter) = self.files.data.futex(COUNTER) {
            counter.fetch_add(1, Ordering::Release);
            let _ = futex::wake(counter, futex::Flags::empty(), i32::MAX.unsigned_abs());
        }
    }
}

const NO_GRAINS: MxlError = MxlError::Invalid("the flow has samples: use the functions for samples");

impl fmt::Debug for FlowWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowWriter").field("definition", self.definition()).finish_non_exhaustive()
    }
}
