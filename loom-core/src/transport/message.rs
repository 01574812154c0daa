use super::{Context, Endpoints};
use crate::buffer::Lent;
use crate::vocabulary::{Errno, FabricAddr, ImmediateData, OpFlags, Tag, TagMatch};

/// Reason for refusing a post.
///
/// ```
/// use loom_core::{Errno, transport::Refusal};
///
/// /// Converts the result of `fi_send`.
/// fn posted(ret: isize) -> Result<(), Refusal> {
///     match Errno::from_ret(ret) {
///         None => Ok(()),
///         Some(Errno::EAGAIN) => Err(Refusal::Again),
///         Some(errno) => Err(Refusal::Errno(errno)),
///     }
/// }
/// assert_eq!((posted(0), posted(-11)), (Ok(()), Err(Refusal::Again)));
/// assert_eq!(posted(-12), Err(Refusal::Errno(Errno::ENOMEM)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Transient, not an error: a resource is full. Poll the queue and post again.
    #[doc(alias = "FI_EAGAIN")]
    Again,
    /// The post is not accepted as it is.
    Errno(Errno),
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Refusal::Errno(errno)
    }
}

/// Operation with several pieces and with flags.
///
/// ```
/// # let mut bytes = [0_u8; 8];
/// # let pointer = core::ptr::NonNull::from_mut(&mut bytes).cast();
/// use loom_core::{Errno, buffer::Lent, transport::{Context, Msg, Refusal}, vocabulary::{FabricAddr, OpFlags}};
///
/// /// Length of a message, in a transport that has no fences.
/// fn len(msg: &Msg<'_>) -> Result<usize, Refusal> {
///     if msg.flags.contains(OpFlags::FENCE) {
///         return Err(Refusal::Errno(Errno::EOPNOTSUPP));
///     }
///     Ok(msg.pieces.iter().map(|piece| piece.len).sum())
/// }
/// let (pieces, context) = ([Lent::source(pointer, 5), Lent::source(pointer, 3)], Context::word(4711));
/// let msg = Msg { address: FabricAddr(3), pieces: &pieces, data: None, context, flags: OpFlags::COMPLETION };
/// assert_eq!(len(&msg), Ok(8));
/// ```
#[derive(Clone, Copy, Debug)]
#[doc(alias = "fi_msg")]
#[doc(alias = "fi_msg_tagged")]
#[doc(alias = "fi_msg_rma")]
pub struct Msg<'a> {
    /// Destination, or permitted source.
    pub address: FabricAddr,
    /// Lent memory: one range at least (zero for a peek or discard), and at most
    /// [`IoVecs::MOST`](crate::buffer::IoVecs::MOST).
    pub pieces: &'a [Lent],
    /// Immediate data.
    pub data: Option<ImmediateData>,
    /// Context of the operation.
    pub context: Context,
    /// Flags in addition to the defaults. Without `COMPLETION`, on a
    /// [selective](super::Bindings::selective) endpoint, a send, read or write reports an event
    /// only if it fails.
    pub flags: OpFlags,
}

/// Messages: `struct fi_ops_msg` without a tag, `struct fi_ops_tagged` with one.
///
/// Tagged messages match tagged receives only.
///
/// # Safety
/// The promises of [`Transport`](super::Transport).
#[doc(alias = "fi_ops_msg")]
#[doc(alias = "fi_ops_tagged")]
pub unsafe trait Messages: Endpoints {
    /// `fi_send` or `fi_tsend`, `fi_senddata` or `fi_tsenddata` with immediate data.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn send(
        endpoint: &Self::Endpoint,
        to: FabricAddr,
        lent: &Lent,
        tag: Option<Tag>,
        data: Option<ImmediateData>,
        context: Context,
    ) -> Result<(), Refusal>;
    /// `fi_inject` or `fi_tinject`, `fi_injectdata` or `fi_tinjectdata` with immediate data.
    /// `bytes` may be reused at once, and no event reports success.
    ///
    /// # Safety
    /// Contract of callers. The length of `bytes` is at most `inject_size` plus a prefix.
    unsafe fn inject(
        endpoint: &Self::Endpoint,
        to: FabricAddr,
        bytes: &[u8],
        tag: Option<Tag>,
        data: Option<ImmediateData>,
    ) -> Result<(), Refusal>;
    /// `fi_recv` or `fi_trecv`.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn recv(
        endpoint: &Self::Endpoint,
        from: FabricAddr,
        lent: &Lent,
        tag: Option<TagMatch>,
        context: Context,
    ) -> Result<(), Refusal>;
    /// `fi_sendmsg` or `fi_tsendmsg`.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn sendmsg(endpoint: &Self::Endpoint, msg: &Msg<'_>, tag: Option<Tag>) -> Result<(), Refusal>;
    /// `fi_recvmsg` or `fi_trecvmsg`. With a tag, it also peeks at, claims and discards messages:
    ///
    /// - `PEEK` has no pieces and does not receive. One event reports the oldest matching message
    ///   with its whole length, or fails with `ENOMSG`. With `PEEK` and `CLAIM`, no other receive
    ///   takes that message any more. With `PEEK` and `DISCARD`, the message is dropped.
    /// - `CLAIM` alone receives the message claimed under the same context. `CLAIM` with `DISCARD`
    ///   drops that message, without pieces and with one event.
    ///
    /// A claim that was made is fetched or discarded once. Until then, or until the endpoint is
    /// closed, the context's space stays as it is.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn recvmsg(endpoint: &Self::Endpoint, msg: &Msg<'_>, tag: Option<TagMatch>) -> Result<(), Refusal>;
}
