//! What is said across the boundary: refusals, how closing went, what an endpoint is bound to.

use core::ffi::c_int;

use super::{Context, Transport};
use crate::buffer::Lent;
use crate::vocabulary::{
    Access, Counted, Errno, FabricAddr, ImmediateData, MemoryKey, MrFlags, OpFlags, OptionValue, RemoteAddr, WaitObj,
};

/// Why a transport did not take a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Something is full for the moment: poll the queue and post again. Not an error.
    #[doc(alias = "FI_EAGAIN")]
    Again,
    /// It will not be taken as it is.
    Errno(Errno),
}

/// Why an endpoint was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointError {
    /// The reason.
    pub errno: Errno,
    /// The provider failed to close again what was opened before the failure: what the endpoint is bound to must stay
    /// open for ever.
    pub left_open: bool,
}

impl From<Errno> for EndpointError {
    /// A failure which left nothing open.
    fn from(errno: Errno) -> Self {
        EndpointError { errno, left_open: false }
    }
}

/// What became of an endpoint that was to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a retired endpoint still has what was lent through it"]
pub enum Closing {
    /// It is closed: nothing that was lent through it is touched any more.
    Closed,
    /// It is still open, because the provider cannot close it safely for now: receives or reads are under way, or other
    /// endpoints would be hurt that have talked to it. Its operations go on and end like others; nothing new is posted on
    /// it. Closing may be tried again.
    Retired,
    /// Its queues are not polled any more, nor its counters used (`endpoint_leave`), and nothing that was lent through it is
    /// touched; but the provider cannot close it, and so not what it is bound to.
    Left,
}

/// What is in flight on an endpoint that is to be closed and that not every provider survives or can stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InFlight {
    /// Receives: there are providers that do not survive closing in the middle of one.
    pub receives: usize,
    /// Bytes of the longest read: there are providers that let the peer write into its buffer whether the endpoint is open
    /// or not.
    pub longest_read: usize,
    /// Bytes of the longest message that was truncated, as far as that is known, or else as many as there can be: there are
    /// providers that do not survive closing afterwards. Never forgotten.
    pub longest_truncated: usize,
    /// Sends, writes and reads, where an endpoint cannot be closed with them in flight
    /// ([`ProviderQuirks::close_with_sends`]), and on transmit contexts of scalable endpoints: there are providers that come back to them
    /// when the answer reaches another context. Such reads count here alone. Elsewhere none.
    pub transmits: usize,
}

impl InFlight {
    /// Neither.
    pub const NOTHING: InFlight = InFlight { receives: 0, longest_read: 0, longest_truncated: 0, transmits: 0 };
}

/// Where an RMA operation goes in the peer's memory; libfabric's `fi_rma_iov` without the length.
#[derive(Clone, Copy, Debug)]
#[doc(alias = "fi_rma_iov")]
pub struct RmaTarget {
    /// The peer.
    pub to: FabricAddr,
    /// Virtual address or offset in the region, as the peer's domain asks for.
    pub addr: RemoteAddr,
    /// The region's key.
    pub key: MemoryKey,
}

/// A part of a peer's memory: one of several that an RMA operation goes to.
#[derive(Clone, Copy, Debug)]
#[doc(alias = "fi_rma_iov")]
pub struct RemotePart {
    /// Virtual address or offset in the region, as the peer's domain asks for.
    pub addr: RemoteAddr,
    /// Bytes.
    pub len: usize,
    /// The region's key.
    pub key: MemoryKey,
}

/// How a provider behaves where its info grants something that it is known not to do as the man pages say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderQuirks {
    /// Multi-receives stay within their buffer whatever peers send, and it is released when nobody writes to it any more.
    pub multi_recv: bool,
    /// Directed receives of messages without tag take those of one peer only, and do not harm the others.
    pub directed_recv: bool,
    /// Peeks look at messages, and receive none.
    pub peek: bool,
    /// How messages are claimed.
    pub claims: Claims,
    /// A message that is discarded is over for its sender, too.
    pub discard: bool,
    /// A region can be closed at any time, also in the middle of a peer's operation on it. Otherwise it is closed when no endpoint
    /// of its domain is open, unless the caller knows that no operation is under way.
    pub mr_close: bool,
    /// An endpoint can be closed with sends and writes in flight, and their buffers are not read afterwards.
    pub close_with_sends: bool,
    /// When its queue is closed, an endpoint is closed with it, or peers do not reach memory through it any more; but for one that cannot
    /// be closed after a message that was longer than its receive.
    pub ends_with_queue: bool,
}

/// How a provider keeps a claim on a message (`FI_CLAIM`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claims {
    /// It remembers the operation's context, whatever that is.
    ByContext,
    /// In the memory that the context points to, as the man page says: contexts that are numbers will not do.
    InContexts,
    /// It cannot.
    Not,
}

impl ProviderQuirks {
    /// All as it should be.
    pub const GOOD: ProviderQuirks = ProviderQuirks {
        multi_recv: true,
        directed_recv: true,
        peek: true,
        claims: Claims::ByContext,
        discard: true,
        mr_close: true,
        close_with_sends: true,
        ends_with_queue: true,
    };
}

/// An operation with several pieces and with flags.
#[derive(Clone, Copy, Debug)]
#[doc(alias = "fi_msg")]
#[doc(alias = "fi_msg_tagged")]
#[doc(alias = "fi_msg_rma")]
pub struct Msg<'a> {
    /// Where it goes to, or from where it may come.
    pub address: FabricAddr,
    /// What was lent: one range at least (none for a peek or discard), and no more than [`IoVecs::MOST`](crate::buffer::IoVecs::MOST).
    pub pieces: &'a [Lent],
    /// Immediate data.
    pub data: Option<ImmediateData>,
    /// What names it.
    pub context: Context,
    /// What is asked for beyond the default. Without `COMPLETION`, on an endpoint that is opened as
    /// [selective](Bindings::selective), a send, read or write has an event only if it fails.
    pub flags: OpFlags,
}

/// What an endpoint is bound to before it is enabled.
#[derive(Debug)]
pub struct Bindings<'a, T: Transport> {
    /// Where transmit completions go.
    pub tx: &'a T::Cq,
    /// Where receive completions and peers' events go; the same queue as `tx`, or another.
    pub rx: &'a T::Cq,
    /// Where peers' addresses are found.
    pub av: &'a T::Av,
    /// What counts its operations, each kind once.
    pub counters: &'a [(Counted, &'a T::Counter)],
    /// Whether sends, reads and writes that are posted as a [`Msg`] report their success only if its flags have `COMPLETION`.
    /// All others do in any case.
    #[doc(alias = "FI_SELECTIVE_COMPLETION")]
    pub selective: bool,
    /// Options that are set before it is enabled, by number.
    pub options: &'a [(u32, OptionValue)],
}

/// How memory is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "fi_mr_attr")]
pub struct MrAttr {
    /// What it is used for.
    pub access: Access,
    /// The wanted key, where the provider does not choose.
    pub key: MemoryKey,
    /// Which of the devices of its kind it belongs to, if it is not the host's.
    pub device: i32,
    /// What is special about it.
    pub flags: MrFlags,
    /// The buffer of a device that it is, if it is given as one.
    pub dmabuf: Option<DmaBuf>,
}

/// Where memory lies in a buffer that a device's driver has exported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "fi_mr_dmabuf")]
pub struct DmaBuf {
    /// The file descriptor of the buffer.
    pub fd: c_int,
    /// Where the memory begins, in bytes.
    pub offset: u64,
}

impl MrAttr {
    /// The host's memory, with nothing special.
    #[must_use]
    pub const fn new(access: Access, key: MemoryKey) -> Self {
        MrAttr { access, key, device: 0, flags: MrFlags::empty(), dmabuf: None }
    }
}

/// How a counter is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "fi_cntr_attr")]
pub struct CounterAttr {
    /// What to sleep on until a number is reached.
    #[doc(alias = "wait_obj")]
    pub wait: WaitObj,
}

/// How waiting for a counter has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterWait {
    /// The number is reached.
    Reached,
    /// The time is over.
    TimeIsOver,
    /// An operation has failed meanwhile.
    OperationFailed,
}

/// Which of a provider's names to read from an info.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    /// `fi_info.fabric_attr->prov_name`
    Provider,
    /// `fi_info.fabric_attr->name`
    Fabric,
    /// `fi_info.domain_attr->name`
    Domain,
}
