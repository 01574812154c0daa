//! Formats of MXL (Media eXchange Layer), and its flows in shared memory (Linux).
//!
//! A flow is a directory of files, which [`FlowWriter`] and [`FlowReader`] map. It can be the ring
//! of a [`Target`] or an [`Initiator`]: grains arrive in the memory of MXL's readers.
//!
//! Other processes write the files: headers and lengths are validated.

mod definition;
mod error;
mod fabrics;
mod files;
mod info;
mod memory;
mod reader;
mod wire;
mod writer;

use allocator_api2::alloc::Allocator;
use loom_core::{Error, Transport};

pub use self::definition::{FlowDefinition, FlowFormat, FlowId};
pub use self::error::MxlError;
pub use self::fabrics::{FabricsAttr, FabricsEvent, FabricsInitiator, FabricsTarget};
pub(crate) use self::files::Files;
pub use self::info::{Region, TargetInfo};
pub use self::memory::Ring;
pub use self::reader::FlowReader;
pub use self::wire::{BounceBuffer, GrainHeader, Immediate};
pub use self::writer::FlowWriter;
use crate::flow::FlowKey;
use crate::{Initiator, Release, Target};

impl<'m, T, A> Target<'m, T, Ring, A>
where
    T: Transport + 'm,
    A: Allocator + Clone + Send + 'm,
{
    /// Registers the ring of a flow ([`Target::add_flow`]).
    ///
    /// After each event, the program commits in order, and releases below [`FlowWriter::oldest`].
    /// With [`Release::Explicit`], the initiator writes only where readers no longer read.
    ///
    /// ```
    /// use loom_core::{Domain, allocator_api2::alloc::Global};
    /// use loom_media::mxl::FlowWriter;
    /// use loom_media::{MediaAttr, Release, Target, TargetEvent};
    ///
    /// # fixture::domain!(network, domain);
    /// # let shared = std::env::temp_dir().join(format!("loom-mxl-target-{}", std::process::id()));
    /// # std::fs::create_dir_all(&shared)?;
    /// # let definition = r#"{
    /// #     "id": "5fbec3b1-1b0f-417d-9059-8b94a47197ed", "label": "captions",
    /// #     "tags": {"urn:x-nmos:tag:grouphint/v1.0": ["studio:captions"]},
    /// #     "format": "urn:x-nmos:format:data", "media_type": "video/smpte291", "grain_rate": {"numerator": 25}
    /// # }"#;
    /// let mut writer = FlowWriter::create(&shared, definition)?;
    /// let mut target = Target::open_in(&[domain], MediaAttr::default(), Global)?;
    /// let flow = target.add_mxl_flow(&writer, Release::Explicit)?;
    /// // In a loop.
    /// if let Some(TargetEvent::Complete { index, .. }) = target.poll(0)? {
    ///     writer.commit_grain(index, 4096, false)?;
    ///     target.release(flow, writer.oldest())?;
    /// }
    /// # drop((target, writer));
    /// # std::fs::remove_dir(&shared)?;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_mxl_flow(&mut self, flow: &FlowWriter, release: Release) -> Result<FlowKey, Error> {
        self.add_flow(Ring(flow.files.clone()), flow.layout(), release)
    }
}

impl<'m, T, A> Initiator<'m, T, Ring, A>
where
    T: Transport + 'm,
    A: Allocator + Clone + Send + 'm,
{
    /// Registers the ring of a flow as a read-only source ([`Initiator::add_flow`]). Data that its
    /// writer overwrites is passed over, or fails here and at the target.
    pub fn add_mxl_flow(&mut self, flow: &FlowReader, first: u64) -> Result<FlowKey, Error> {
        let key = self.add_flow(Ring(flow.files.clone()), flow.layout(), first)?;
        self.set_source(key, flow.files.clone());
        Ok(key)
    }
}
