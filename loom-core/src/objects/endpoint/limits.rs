//! [`Limits`]: what every post is checked against before its buffer moves.

use crate::error::PostError;
use crate::objects::cq::ReceiveMode;
use crate::objects::domain::DomainInner;
use crate::objects::info::{Info, Prefixes};
use crate::objects::options::CompletionLevel;
use crate::transport::{ProviderQuirks, Transport};
use crate::vocabulary::{Caps, FabricAddr, ImmediateData, MrMode, OpFlags};

/// What a post is checked against.
#[expect(unnameable_types, reason = "an argument of hidden methods")]
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    caps: Caps,
    pub(super) quirks: ProviderQuirks,
    pub(super) inject_size: usize,
    /// Inject calls of messages that have so many bytes, or more, are not posted as they are.
    pub(super) inject_end: usize,
    pub(super) max_msg_size: usize,
    cq_data_size: usize,
    pub(super) tx_iov_limit: usize,
    pub(super) rx_iov_limit: usize,
    pub(super) rma_iov_limit: usize,
    /// What sends and writes do by default.
    pub(super) tx_flags: OpFlags,
    /// Bytes in front of messages.
    pub(super) prefixes: Prefixes,
    /// Buffers have to be registered.
    pub(super) local: bool,
    /// Peers' writes use up receives.
    pub(super) consumes: bool,
    /// More is to be seen to than what every provider asks for.
    pub(super) extra_checks: bool,
    /// Sends, reads and writes need not report their success.
    pub(super) selective: bool,
}

/// The most bytes that inject calls copy where a prefix has to be put before them: on the stack.
pub(super) const INJECT_ROOM: usize = 1024;

impl Limits {
    /// Of an endpoint that is opened from this info of a domain.
    pub(super) fn of<T: Transport>(info: &Info<T>, domain: &DomainInner<T>, receive_mode: ReceiveMode) -> Self {
        let attributes = info.attributes();
        let elsewhere = match receive_mode {
            ReceiveMode::Through(_) | ReceiveMode::OfWrites(_) | ReceiveMode::Nowhere => Caps::RECV,
            // Providers that have tags with shared contexts crash when one arrives that nobody waits for.
            ReceiveMode::ForOthers => Caps::TAGGED.union(Caps::MULTI_RECV),
            ReceiveMode::Itself => Caps::empty(),
        };
        let consumes = info.consumes_receives();
        let prefixes = info.prefixes();
        // Nobody says where the prefixes of the messages are that one buffer receives, or what a write uses up of it.
        let without = if prefixes.rx > 0 || consumes { Caps::MULTI_RECV } else { Caps::empty() };
        let (inject_size, inject_end) = match prefixes.tx {
            0 => (attributes.tx.inject_size, attributes.tx.inject_size.saturating_add(1)),
            size => (attributes.tx.inject_size.min(INJECT_ROOM.saturating_sub(size)), 0),
        };
        // An info without a name came with a request: what it grants is known of the domain's alone.
        let granted = if info.provider().is_empty() { domain.info().caps() } else { Caps::all() };
        // The domain asks for it, whatever the info says.
        let local = attributes.domain.mr_mode.union(domain.attributes().domain.mr_mode).contains(MrMode::LOCAL);
        Limits {
            // Of the domain's: `sockets` does not say in the info of a request whose it is.
            quirks: T::quirks(domain.info().raw()),
            caps: attributes.caps.intersection(granted).with_modifiers().difference(elsewhere).difference(without),
            inject_size,
            inject_end,
            max_msg_size: attributes.endpoint.max_msg_size,
            cq_data_size: attributes.domain.cq_data_size,
            tx_iov_limit: attributes.tx.iov_limit,
            rx_iov_limit: attributes.rx.iov_limit,
            rma_iov_limit: attributes.tx.rma_iov_limit,
            tx_flags: attributes.tx.op_flags,
            prefixes,
            local,
            consumes,
            extra_checks: local || consumes || prefixes != Prefixes { tx: 0, rx: 0 },
            selective: false,
        }
    }

    /// Whether something is granted.
    #[inline]
    pub(super) fn granted(&self, caps: Caps) -> Result<(), PostError> {
        let missing = caps.difference(self.caps);
        if missing.is_empty() { Ok(()) } else { Err(PostError::NotGranted(missing)) }
    }

    /// Whether memory of devices can be posted.
    pub(super) const fn takes_device_memory(&self) -> bool {
        self.caps.contains(Caps::HMEM)
    }

    /// Whether immediate data is carried.
    #[inline]
    pub(super) fn check_data_width(&self, data: Option<ImmediateData>) -> Result<(), PostError> {
        match data {
            Some(data) if !data.fits(self.cq_data_size) => Err(PostError::DataWidth { limit: self.cq_data_size }),
            _ => Ok(()),
        }
    }

    /// Whether a message without tag can be received from this address: of one peer, only where that works.
    #[inline]
    pub(super) fn directs(&self, from: FabricAddr) -> Result<FabricAddr, PostError> {
        if from == FabricAddr::UNSPEC || self.quirks.directed_recv {
            Ok(from)
        } else {
            Err(PostError::NotGranted(Caps::DIRECTED_RECV))
        }
    }

    /// With what the endpoint does by default, which flags of a call would override; but for the level of completion, if
    /// another is asked for.
    pub(super) fn with_default(&self, flags: OpFlags) -> OpFlags {
        let other = flags.intersects(CompletionLevel::ALL);
        flags | if other { self.tx_flags.difference(CompletionLevel::ALL) } else { self.tx_flags }
    }
}
