use super::options::CompletionLevel;
use crate::buffer::Lent;
use crate::cq::ReceiveMode;
use crate::domain::DomainInner;
use crate::error::PostError;
use crate::info::{Info, Prefixes};
use crate::transport::{ProviderQuirks, Transport};
use crate::vocabulary::{Caps, FabricAddr, ImmediateData, MrMode, OpFlags};

#[expect(unnameable_types, reason = "an argument of hidden methods")]
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    lacking: Caps,
    /// Identity of the domain, with which buffers are registered.
    pub(super) domain: u64,
    pub(super) quirks: ProviderQuirks,
    pub(super) inject_size: usize,
    /// Injects of at least this length need a prefix, or are too long.
    pub(super) inject_end: usize,
    pub(super) max_msg_size: usize,
    pub(super) tx_iov_limit: usize,
    pub(super) rx_iov_limit: usize,
    pub(super) rma_iov_limit: usize,
    /// Default flags of sends and writes.
    pub(super) tx_flags: OpFlags,
    pub(super) prefixes: Prefixes,
    /// At most 255, of which 8 can be used.
    pub(super) cq_data_size: u8,
    /// Buffers must be registered.
    pub(super) local: bool,
    pub(super) writes_consume_receives: bool,
    /// Posts have to apply modes: prefixes, registration, or writes that consume receives.
    pub(super) has_modes: bool,
    /// Sends, reads and writes need not report success.
    pub(super) selective: bool,
}

/// Maximum bytes, on the stack, of an inject with a prefix.
pub(super) const INJECT_ROOM: usize = 1024;

impl Limits {
    pub(super) fn of<T: Transport>(info: &Info<T>, domain: &DomainInner<T>, receive_mode: ReceiveMode) -> Self {
        let attributes = info.attributes();
        let elsewhere = match receive_mode {
            ReceiveMode::Through(_) | ReceiveMode::OfWrites(_) | ReceiveMode::Nowhere => Caps::RECV,
            // Providers that support tags with shared contexts crash when an unmatched tagged
            // message arrives.
            ReceiveMode::ForOthers => Caps::TAGGED.union(Caps::MULTI_RECV),
            ReceiveMode::Itself => Caps::empty(),
        };
        let writes_consume_receives = info.consumes_receives();
        let prefixes = info.prefixes();
        // libfabric does not define where prefixes lie in a multi-receive buffer, or how much of it
        // a write consumes.
        let multi = Caps::MULTI_RECV.union(Caps::TAGGED_MULTI_RECV);
        let without = if prefixes.rx > 0 || writes_consume_receives { multi } else { Caps::empty() };
        let (inject_size, inject_end) = match prefixes.tx {
            0 => (attributes.tx.inject_size, attributes.tx.inject_size.saturating_add(1)),
            size => (attributes.tx.inject_size.min(INJECT_ROOM.saturating_sub(size)), 0),
        };
        // An info without a name comes from a request: the domain's has the capabilities.
        let granted = if info.provider().is_empty() { domain.info().caps() } else { Caps::all() };
        let local = attributes.domain.mr_mode.union(domain.attributes().domain.mr_mode).contains(MrMode::LOCAL);
        Limits {
            quirks: T::quirks(domain.info().raw()),
            domain: domain.identity(),
            lacking: attributes.caps.intersection(granted).with_modifiers().complement() | elsewhere | without,
            inject_size,
            inject_end,
            max_msg_size: attributes.endpoint.max_msg_size,
            cq_data_size: u8::try_from(attributes.domain.cq_data_size).unwrap_or(u8::MAX),
            tx_iov_limit: attributes.tx.iov_limit,
            rx_iov_limit: attributes.rx.iov_limit,
            rma_iov_limit: attributes.tx.rma_iov_limit,
            tx_flags: attributes.tx.op_flags,
            prefixes,
            local,
            writes_consume_receives,
            has_modes: local || writes_consume_receives || prefixes != Prefixes { tx: 0, rx: 0 },
            selective: false,
        }
    }

    pub(super) const fn caps(&self) -> Caps {
        self.lacking.complement()
    }

    /// Device memory must always be registered: the descriptor identifies the device.
    #[cold]
    pub(super) fn check_device_memory(&self, lent: &Lent) -> Result<(), PostError> {
        if self.lacking.contains(Caps::HMEM) {
            return Err(PostError::DeviceMemory);
        }
        if lent.descriptor.is_none() && lent.len > 0 { Err(PostError::NotRegistered) } else { Ok(()) }
    }

    pub(super) fn check_registration(&self, lent: &Lent) -> Result<(), PostError> {
        let missing = self.local && lent.descriptor.is_none() && lent.len > 0;
        if missing { Err(PostError::NotRegistered) } else { Ok(()) }
    }

    /// Prepends the required prefix to the bytes of an inject. Without one the bytes are too long.
    #[cold]
    #[inline(never)]
    pub(super) fn prefixed(&self, bytes: &[u8]) -> Result<heapless::Vec<u8, INJECT_ROOM>, PostError> {
        let (needed, limit) = (self.prefixes.tx, self.inject_size);
        if bytes.len() > limit {
            return Err(PostError::TooLong { limit });
        }
        let mut message = heapless::Vec::new();
        let has_prefix = message.resize(needed, 0).is_ok() && message.extend_from_slice(bytes).is_ok();
        if has_prefix { Ok(message) } else { Err(PostError::NoPrefix { needed }) }
    }

    /// Checks the capabilities of an operation, and the width of its immediate data.
    #[inline(always)]
    pub(super) fn admit(&self, caps: Caps, data: Option<ImmediateData>) -> Result<(), PostError> {
        let missing = caps.intersection(self.lacking);
        if !missing.is_empty() {
            return Err(PostError::NotGranted(missing).cold());
        }
        match data {
            Some(data) if !data.fits(self.cq_data_size.into()) => {
                Err(PostError::DataWidth { limit: self.cq_data_size.into() }.cold())
            }
            _ => Ok(()),
        }
    }

    /// Directed receives require a provider where they work.
    #[inline]
    pub(super) fn directs(&self, from: FabricAddr) -> Result<FabricAddr, PostError> {
        if from == FabricAddr::UNSPEC || self.quirks.directed_recv {
            Ok(from)
        } else {
            Err(PostError::NotGranted(Caps::DIRECTED_RECV).cold())
        }
    }

    /// Adds the default flags, which flags of a call would override. A completion level in `flags`
    /// replaces the default.
    pub(super) fn with_default(&self, flags: OpFlags) -> OpFlags {
        let other = flags.intersects(CompletionLevel::ALL);
        flags | if other { self.tx_flags.difference(CompletionLevel::ALL) } else { self.tx_flags }
    }
}
