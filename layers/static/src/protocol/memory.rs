use loom_core::atomic::{CompareOp, Element, FetchOp, OperationIn};
use loom_core::cq::CqError;
use loom_core::deadline::Deadline;
use loom_core::endpoint::Granted;
use loom_core::engine::op_table::Fetched;
use loom_core::mr::RemoteRegion;
use loom_core::vocabulary::ImmediateData;

use super::{Posted, Transmitter};

/// Reads a peer's memory.
///
/// ```
/// use loom_static::protocol::{Completes, RmaRead};
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::{Access, Av, Cq, Domain, Forever, Mr, RemoteRegion};
///
/// /// The first `len` bytes of a peer's region.
/// fn fetch<P: RmaRead<Buf = Vec<u8>>>(protocol: &mut P, peer: P::To, from: &RemoteRegion, len: usize) -> Option<Vec<u8>> {
///     let read = protocol.post(vec![0; len], Forever, |protocol, room| protocol.read(peer, from, 0, room)).ok()?;
///     let outcome = protocol.wait(read, Forever).ok()??;
///     outcome.result.ok().map(|_| outcome.buf)
/// }
///
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// # let [mut alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// # let to_bob = av.insert(&bob.address()?)?;
/// let region = Mr::open(&domain, vec![7; 64], Access::REMOTE_READ)?;
/// assert_eq!(fetch(&mut alice, to_bob, &region.remote(), 3), Some(vec![7; 3]));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[doc(alias = "FI_RMA")]
pub trait RmaRead: Transmitter {
    /// Fills the buffer from a peer's region, from `offset` bytes on.
    ///
    /// # Errors
    /// The buffer is returned. A refusal by the peer is an [`Outcome`](super::Outcome).
    #[doc(alias = "fi_read")]
    fn read(&mut self, peer: Self::To, region: &RemoteRegion, offset: u64, buf: Self::Buf) -> Posted<Self>;
}

/// Writes a peer's memory.
///
/// ```
/// use loom_static::protocol::{Posted, RmaWrite};
/// use loom_core::{ImmediateData, RemoteRegion};
///
/// /// Writes a block into its place at a peer, whose queue reports the number.
/// fn put<P: RmaWrite>(protocol: &mut P, peer: P::To, region: &RemoteRegion, number: u32, block: P::Buf) -> Posted<P> {
///     protocol.write_data(peer, region, u64::from(number) * 4096, ImmediateData(number.into()), block)
/// }
/// ```
#[doc(alias = "FI_RMA")]
pub trait RmaWrite: Transmitter {
    /// Writes the buffer into a peer's region, from `offset` bytes on.
    ///
    /// # Errors
    /// See [`RmaRead::read`].
    #[doc(alias = "fi_write")]
    fn write(&mut self, peer: Self::To, region: &RemoteRegion, offset: u64, buf: Self::Buf) -> Posted<Self>;

    /// Writes the buffer; the peer's queue reports `data`.
    ///
    /// # Errors
    /// See [`write`](Self::write).
    #[doc(alias = "fi_writedata")]
    fn write_data(
        &mut self,
        peer: Self::To,
        region: &RemoteRegion,
        offset: u64,
        data: ImmediateData,
        buf: Self::Buf,
    ) -> Posted<Self>;
}

/// Atomic operations on a peer's memory. Buffers are those of
/// [`Endpoint::atomic`](loom_core::Endpoint::atomic).
///
/// ```
/// use loom_core::atomic::FetchOp;
/// use loom_core::endpoint::Granted;
/// use loom_static::protocol::Atomics;
/// use loom_core::{Forever, RemoteRegion};
///
/// /// Takes the next ticket: fetch-and-add on the first element of a region.
/// fn ticket<P: Atomics>(
///     protocol: &mut P,
///     peer: P::To,
///     region: &RemoteRegion,
///     add: Granted<FetchOp<u64>>,
/// ) -> Option<u64> {
///     let key = protocol.fetch_value(peer, region, 0, add, 1).ok()?;
///     protocol.wait_value(key, Forever).ok()??.value().ok()?
/// }
/// ```
#[doc(alias = "FI_ATOMIC")]
pub trait Atomics: Transmitter {
    /// [`Endpoint::atomic`](loom_core::Endpoint::atomic).
    ///
    /// # Errors
    /// See [`RmaRead::read`].
    #[doc(alias = "fi_atomic")]
    #[doc(alias = "fi_fetch_atomic")]
    #[doc(alias = "fi_compare_atomic")]
    fn atomic<O: OperationIn<Self::Buf>>(
        &mut self,
        peer: Self::To,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<O>,
        buf: Self::Buf,
    ) -> Posted<Self>;

    /// [`atomic`](Self::atomic) of one fetched element, without a buffer.
    /// [`wait_value`](Self::wait_value) returns the result.
    ///
    /// # Errors
    /// The refusal.
    #[doc(alias = "fi_fetch_atomic")]
    fn fetch_value<E: Element>(
        &mut self,
        peer: Self::To,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<FetchOp<E>>,
        operand: E,
    ) -> Result<Self::Key, Self::PostError>;

    /// [`atomic`](Self::atomic) of one compared element, without a buffer.
    ///
    /// # Errors
    /// The refusal.
    #[doc(alias = "FI_CSWAP")]
    fn compare_value<E: Element>(
        &mut self,
        peer: Self::To,
        region: &RemoteRegion,
        offset: u64,
        op: Granted<CompareOp<E>>,
        compare: E,
        operand: E,
    ) -> Result<Self::Key, Self::PostError>;

    /// Waits for an operation on one element.
    ///
    /// # Errors
    /// See [`wait`](super::Completes::wait).
    fn wait_value(&mut self, key: Self::Key, until: impl Deadline) -> Result<Option<Fetched>, CqError>;
}
