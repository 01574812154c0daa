use super::{Context, Endpoints, Msg, Refusal};
use crate::buffer::Lent;
use crate::vocabulary::{FabricAddr, ImmediateData, MemoryKey, RemoteAddr};

/// Target of an RMA operation: `fi_rma_iov` without the length.
#[derive(Clone, Copy, Debug)]
#[doc(alias = "fi_rma_iov")]
pub struct RmaTarget {
    /// The peer.
    pub to: FabricAddr,
    /// Virtual address or offset in the region, as the peer's domain requires.
    pub addr: RemoteAddr,
    /// The region's key.
    pub key: MemoryKey,
}

/// Part of a peer's memory, one of several in an RMA operation.
///
/// ```
/// use loom_core::{Access, Forever, Mr, SendOptions};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let memory = Mr::open(&domain, vec![0; 16], Access::REMOTE_WRITE)?;
/// let part = |offset| memory.remote().part(offset, 2).expect("it has 16 bytes");
/// let (parts, options) = ([part(0), part(8)], SendOptions::default());
/// let write = |bytes| alice.write_with(to_bob, &parts, options, bytes);
/// cq.post(vec![1, 2, 3, 4], Forever, write)?;
/// let mut bytes = [0; 10];
/// while bytes != [1, 2, 0, 0, 0, 0, 0, 0, 3, 4] {
///     cq.progress()?;
///     memory.window().copy_to(0, &mut bytes)?;
/// }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[doc(alias = "fi_rma_iov")]
pub struct RemotePart {
    /// [`RmaTarget::addr`]
    pub addr: RemoteAddr,
    /// Length in bytes.
    pub len: usize,
    /// The region's key.
    pub key: MemoryKey,
}

/// Reads from and writes to memory of peers: `struct fi_ops_rma`.
///
/// # Safety
/// The promises of [`Transport`](super::Transport).
#[doc(alias = "fi_ops_rma")]
pub unsafe trait Rma: Endpoints {
    /// `fi_read`
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn read(endpoint: &Self::Endpoint, from: RmaTarget, lent: &Lent, context: Context) -> Result<(), Refusal>;
    /// `fi_write`, or `fi_writedata` with immediate data.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn write(
        endpoint: &Self::Endpoint,
        to: RmaTarget,
        lent: &Lent,
        data: Option<ImmediateData>,
        context: Context,
    ) -> Result<(), Refusal>;
    /// `fi_inject_write`, or `fi_inject_writedata`.
    ///
    /// # Safety
    /// Contract of callers. `bytes` is not longer than `inject_size`.
    unsafe fn inject_write(
        endpoint: &Self::Endpoint,
        to: RmaTarget,
        bytes: &[u8],
        data: Option<ImmediateData>,
    ) -> Result<(), Refusal>;
    /// `fi_readmsg`. The parts have the same total length as the pieces.
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn readmsg(endpoint: &Self::Endpoint, msg: &Msg<'_>, remote: &[RemotePart]) -> Result<(), Refusal>;
    /// `fi_writemsg`, like [`readmsg`](Self::readmsg).
    ///
    /// # Safety
    /// Contract of callers.
    unsafe fn writemsg(endpoint: &Self::Endpoint, msg: &Msg<'_>, remote: &[RemotePart]) -> Result<(), Refusal>;
}
