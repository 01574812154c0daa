use loom_core::vocabulary::{Caps, EndpointType};

use super::Query;
use super::set::{No, Sealed, Set, Yes};

/// Endpoint type of a query.
///
/// ```
/// use loom_static::query::{EndpointKind, Messages, Msg, Query, Rdm};
/// use loom_core::vocabulary::EndpointType;
///
/// /// Whether a query asks for connections.
/// const fn is_connected<Q: Query>() -> bool {
///     <Q::Kind as EndpointKind>::TYPE.as_raw() == EndpointType::MSG.as_raw()
/// }
///
/// assert!(is_connected::<(Msg, Messages)>());
/// // A query that names no type leaves it to the transport.
/// assert!(!is_connected::<(Rdm, Messages)>() && !is_connected::<Messages>());
/// ```
pub trait EndpointKind: Sealed {
    /// Its number.
    const TYPE: EndpointType;
}

/// Endpoint types that one query may combine.
#[diagnostic::on_unimplemented(
    message = "a query asks for one type of endpoint, not for `{Self}` and `{Other}`",
    label = "asks for `{Self}` and for `{Other}`"
)]
pub trait Joins<Other: EndpointKind>: EndpointKind {
    /// Combined type.
    type Is: EndpointKind;
}

/// Any endpoint type.
///
/// ```
/// use loom_static::query::{AnyType, Messages, Query, Rdm};
/// use loom_core::vocabulary::EndpointType;
///
/// /// Compiles for queries that leave the type of endpoint open, as those of a library should.
/// fn is_open<Q: Query<Kind = AnyType>>() -> EndpointType {
///     Q::ENDPOINT_TYPE
/// }
///
/// assert_eq!(is_open::<Messages>(), EndpointType::UNSPEC);
/// // The program names the type.
/// assert_eq!(<(Rdm, Messages)>::ENDPOINT_TYPE, EndpointType::RDM);
/// ```
#[derive(Clone, Copy, Debug)]
pub enum AnyType {}

/// Reliable connectionless endpoint (`FI_EP_RDM`).
///
/// ```
/// use loom_static::query::{Messages, Query, Rdm};
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::vocabulary::EndpointType;
///
/// type Wanted = (Rdm, Messages);
/// assert_eq!(Wanted::ENDPOINT_TYPE, EndpointType::RDM);
/// let network = Network::new(NetworkAttr::default())?;
/// Wanted::check(&network.query(&Wanted::HINTS)?)?;
/// # Ok::<_, loom_core::Error>(())
/// ```
#[doc(alias = "FI_EP_RDM")]
#[derive(Clone, Copy, Debug)]
pub enum Rdm {}

/// Datagram endpoint (`FI_EP_DGRAM`).
///
/// ```
/// use loom_static::query::{Dgram, Messages, Query};
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::vocabulary::EndpointType;
///
/// type Wanted = (Dgram, Messages);
/// assert_eq!(Wanted::HINTS.endpoint_attr.kind, EndpointType::DGRAM);
/// // Messages of the software transport arrive, so it has no such endpoints.
/// let network = Network::new(NetworkAttr::default())?;
/// assert!(network.query(&Wanted::HINTS).is_err());
/// # Ok::<_, loom_core::Error>(())
/// ```
#[doc(alias = "FI_EP_DGRAM")]
#[derive(Clone, Copy, Debug)]
pub enum Dgram {}

/// Endpoint connected to one peer (`FI_EP_MSG`).
///
/// ```
/// use loom_core::error::OpenError;
/// use loom_static::query::{Messages, Msg, Query};
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::vocabulary::EndpointType;
///
/// type Wanted = (Msg, Messages);
/// let network = Network::new(NetworkAttr::default())?;
/// // Endpoints of the software transport are not connected.
/// assert!(network.query(&Wanted::HINTS).is_err());
/// assert_eq!(Wanted::check(&network.info()), Err(OpenError::EndpointType(EndpointType::RDM)));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[doc(alias = "FI_EP_MSG")]
#[derive(Clone, Copy, Debug)]
pub enum Msg {}

impl Sealed for AnyType {}

impl EndpointKind for AnyType {
    const TYPE: EndpointType = EndpointType::UNSPEC;
}

impl Joins<AnyType> for AnyType {
    type Is = AnyType;
}

/// Endpoint types join themselves and `AnyType`.
macro_rules! endpoint_type {
    ($Type:ident = $TYPE:expr) => {
        impl Sealed for $Type {}
        impl EndpointKind for $Type {
            const TYPE: EndpointType = $TYPE;
        }
        impl Joins<AnyType> for $Type {
            type Is = $Type;
        }
        impl Joins<$Type> for AnyType {
            type Is = $Type;
        }
        impl Joins<$Type> for $Type {
            type Is = $Type;
        }
        impl Query for $Type {
            type Kind = $Type;
            type Groups = Set;
            const CAPS: Caps = Caps::empty();
        }
    };
}

endpoint_type!(Rdm = EndpointType::RDM);
endpoint_type!(Dgram = EndpointType::DGRAM);
endpoint_type!(Msg = EndpointType::MSG);

/// Untagged messages.
///
/// ```
/// use loom_static::protocol::{MsgRecv, MsgSend};
/// use loom_static::query::{Messages, Query};
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::{Av, Cq, Domain, Forever, Source};
///
/// # let network = Network::new(NetworkAttr::default())?;
/// let domain = Domain::open(&network.query(&Messages::HINTS)?)?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// let [mut alice, mut bob] = [Messages::endpoint(&cq, &av)?, Messages::endpoint(&cq, &av)?];
/// # let to_bob = av.insert(&bob.whole().address()?)?;
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// cq.post(b"hello".to_vec(), Forever, |message| alice.send(to_bob, message))?;
/// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
#[doc(alias = "FI_MSG")]
#[derive(Clone, Copy, Debug)]
pub enum Messages {}

impl Sealed for Messages {}

impl Query for Messages {
    type Kind = AnyType;
    type Groups = Set<Yes>;
    const CAPS: Caps = Caps::MSG.union(Caps::SEND).union(Caps::RECV);
}

/// Tagged messages.
///
/// ```
/// use loom_static::protocol::{TaggedRecv, TaggedSend};
/// use loom_static::query::{Query, Tagged};
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::{Av, Cq, Domain, Forever, Source, Tag, TagMatch};
///
/// # let network = Network::new(NetworkAttr::default())?;
/// let domain = Domain::open(&network.query(&Tagged::HINTS)?)?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// let [mut alice, mut bob] = [Tagged::endpoint(&cq, &av)?, Tagged::endpoint(&cq, &av)?];
/// # let to_bob = av.insert(&bob.whole().address()?)?;
/// cq.post(b"hello".to_vec(), Forever, |message| alice.tagged_send(to_bob, Tag(7), message))?;
/// let received = cq.post(vec![0; 5], Forever, |room| bob.tagged_recv(Source::Any, TagMatch::ANY, room))?;
/// assert_eq!(cq.finish(received, Forever)?.result()?.tag, Some(Tag(7)));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[doc(alias = "FI_TAGGED")]
#[derive(Clone, Copy, Debug)]
pub enum Tagged {}

impl Sealed for Tagged {}

impl Query for Tagged {
    type Kind = AnyType;
    type Groups = Set<No, Yes>;
    const CAPS: Caps = Caps::TAGGED.union(Caps::SEND).union(Caps::RECV);
}

/// Reads, local and by peers.
///
/// ```
/// use loom_static::protocol::RmaRead;
/// use loom_static::query::{Query, Reads};
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::{Access, Av, Caps, Cq, Domain, Forever, Mr};
///
/// assert!(!Reads::CAPS.contains(Caps::WRITE), "writes are a requirement of their own");
/// # let network = Network::new(NetworkAttr::default())?;
/// let domain = Domain::open(&network.query(&Reads::HINTS)?)?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// let [mut alice, mut bob] = [Reads::endpoint(&cq, &av)?, Reads::endpoint(&cq, &av)?];
/// # let to_bob = av.insert(&bob.whole().address()?)?;
/// let region = Mr::open(&domain, vec![7; 64], Access::REMOTE_READ)?;
/// let read = cq.post(vec![0; 8], Forever, |room| alice.read(to_bob, &region.remote(), 0, room))?;
/// assert_eq!(cq.finish(read, Forever)?.into_buf(), [7; 8]);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[doc(alias = "FI_READ")]
#[doc(alias = "FI_REMOTE_READ")]
#[derive(Clone, Copy, Debug)]
pub enum Reads {}

impl Sealed for Reads {}

impl Query for Reads {
    type Kind = AnyType;
    type Groups = Set<No, No, Yes>;
    const CAPS: Caps = Caps::RMA.union(Caps::READ).union(Caps::REMOTE_READ);
}

/// Writes, local and by peers.
///
/// ```
/// use loom_static::protocol::{RmaRead, RmaWrite};
/// use loom_static::query::{Query, Reads, Writes};
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::{Access, Av, Cq, Domain, Forever, Mr};
///
/// type Wanted = (Reads, Writes);
/// # let network = Network::new(NetworkAttr::default())?;
/// let info = network.query(&Wanted::HINTS)?;
/// # let domain = Domain::open(&info)?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// let [mut alice, mut bob] = [Wanted::endpoint(&cq, &av)?, Wanted::endpoint(&cq, &av)?];
/// # let to_bob = av.insert(&bob.whole().address()?)?;
/// let region = Mr::open(&domain, vec![7; 8], Access::REMOTE_READ | Access::REMOTE_WRITE)?;
/// let read = cq.post(vec![0; 8], Forever, |room| alice.read(to_bob, &region.remote(), 0, room))?;
/// assert_eq!(cq.finish(read, Forever)?.into_buf(), [7; 8]);
/// let written = cq.post(vec![1; 8], Forever, |bytes| alice.write(to_bob, &region.remote(), 0, bytes))?;
/// cq.finish(written, Forever)?.result()?;
/// # Ok::<_, loom_core::Error>(())
/// ```
#[doc(alias = "FI_WRITE")]
#[doc(alias = "FI_REMOTE_WRITE")]
#[derive(Clone, Copy, Debug)]
pub enum Writes {}

impl Sealed for Writes {}

impl Query for Writes {
    type Kind = AnyType;
    type Groups = Set<No, No, No, Yes>;
    const CAPS: Caps = Caps::RMA.union(Caps::WRITE).union(Caps::REMOTE_WRITE);
}

/// Atomic operations, local and by peers.
///
/// ```
/// use loom_core::atomic::FetchOp;
/// use loom_static::query::{AtomicOps, Query};
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::{Av, Cq, Domain};
///
/// # let network = Network::new(NetworkAttr::default())?;
/// let domain = Domain::open(&network.query(&AtomicOps::HINTS)?)?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
/// let endpoint = AtomicOps::endpoint(&cq, &av)?;
/// // The domain says which operations there are on which elements.
/// assert!(domain.query_atomic(FetchOp::<u64>::SUM)?.max_count() > 0);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[doc(alias = "FI_ATOMIC")]
#[derive(Clone, Copy, Debug)]
pub enum AtomicOps {}

impl Sealed for AtomicOps {}

impl Query for AtomicOps {
    type Kind = AnyType;
    type Groups = Set<No, No, No, No, Yes>;
    const CAPS: Caps =
        Caps::ATOMIC.union(Caps::READ).union(Caps::WRITE).union(Caps::REMOTE_READ).union(Caps::REMOTE_WRITE);
}

/// Receives of many messages into one buffer, posted by the [whole](crate::Only::whole) endpoint,
/// with [`Messages`].
///
/// ```
/// use loom_static::query::{Messages, MultiRecvs, Query};
/// use loom_core::{Completion, Domain, Forever, Source};
/// # use loom_core::soft::{Network, NetworkAttr};
/// # use loom_core::{Av, Cq};
/// # let network = Network::new(NetworkAttr::default())?;
///
/// type Wanted = (Messages, MultiRecvs);
/// let domain = Domain::open(&network.query(&Wanted::HINTS)?)?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// # let alice = cq.endpoint(&av)?;
/// let bob = Wanted::endpoint(&cq, &av)?;
/// # let to_bob = av.insert(&bob.whole().address()?)?;
/// bob.whole().multi_recv(Source::Any, vec![0; 4096])?;
/// cq.retry(Forever, || alice.inject(to_bob, b"hello"))?;
/// let piece = loop {
///     if let Some(Completion::Piece(piece)) = cq.poll()? {
///         break piece;
///     }
/// };
/// assert_eq!(piece.bytes(), b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
#[doc(alias = "FI_MULTI_RECV")]
#[derive(Clone, Copy, Debug)]
pub enum MultiRecvs {}

impl Sealed for MultiRecvs {}

impl Query for MultiRecvs {
    type Kind = AnyType;
    type Groups = Set;
    const CAPS: Caps = Caps::MULTI_RECV;
}

/// Receives of many tagged messages into one buffer, posted by the [whole](crate::Only::whole)
/// endpoint, with [`Tagged`].
///
/// ```
/// use loom_core::Caps;
/// use loom_static::query::{Query, Tagged, TaggedMultiRecvs};
///
/// type Wanted = (Tagged, TaggedMultiRecvs);
/// // libfabric has it since version 1.21, and few providers grant it: a program asks for it where it cannot do without.
/// assert!(Wanted::CAPS.contains(Caps::TAGGED | Caps::TAGGED_MULTI_RECV));
/// assert!(!Wanted::CAPS.contains(Caps::MULTI_RECV));
/// ```
#[doc(alias = "FI_TAGGED_MULTI_RECV")]
#[derive(Clone, Copy, Debug)]
pub enum TaggedMultiRecvs {}

impl Sealed for TaggedMultiRecvs {}

impl Query for TaggedMultiRecvs {
    type Kind = AnyType;
    type Groups = Set;
    const CAPS: Caps = Caps::TAGGED_MULTI_RECV;
}

/// Injection of at least `SIZE` bytes, as messages, writes and atomic operations of the query's
/// other groups.
///
/// ```
/// use loom_core::error::OpenError;
/// use loom_static::protocol::{Inject, MsgRecv};
/// use loom_static::query::{Injects, Messages, Query};
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::{Av, Cq, Domain, Forever, Source};
///
/// type Wanted = (Messages, Injects<64>);
/// # let network = Network::new(NetworkAttr::default())?;
/// let domain = Domain::open(&network.query(&Wanted::HINTS)?)?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// let [mut alice, mut bob] = [Wanted::endpoint(&cq, &av)?, Wanted::endpoint(&cq, &av)?];
/// # let to_bob = av.insert(&bob.whole().address()?)?;
/// let received = bob.recv(Source::Any, vec![0; 64])?;
/// cq.retry(Forever, || alice.inject(to_bob, &[7; 64]))?;
/// assert_eq!(cq.finish(received, Forever)?.into_buf(), [7; 64]);
/// // No network injects that much.
/// let too_much = <(Messages, Injects<{ 1 << 30 }>)>::check(domain.info());
/// assert!(matches!(too_much, Err(OpenError::InjectSize { .. })));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[doc(alias = "fi_inject")]
#[doc(alias = "inject_size")]
#[derive(Clone, Copy, Debug)]
pub enum Injects<const SIZE: usize = 0> {}

impl<const SIZE: usize> Sealed for Injects<SIZE> {}

impl<const SIZE: usize> Query for Injects<SIZE> {
    type Kind = AnyType;
    type Groups = Set<No, No, No, No, No, Yes>;
    const CAPS: Caps = Caps::empty();
    const INJECT_SIZE: usize = SIZE;
}

/// Collective operations. The [whole](crate::Only::whole) endpoint joins groups.
///
/// ```
/// use loom_static::query::{CollectiveOps, Messages, Query};
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::{Av, Cq, Domain, Forever};
///
/// type Wanted = (Messages, CollectiveOps);
/// # let network = Network::new(NetworkAttr::default())?;
/// let domain = Domain::open(&network.query(&Wanted::HINTS)?)?;
/// # let (av, cq) = (Av::open(&domain, 1)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
/// let endpoint = Wanted::endpoint(&cq, &av)?;
/// // A group of one member, whose barrier waits for no other.
/// let mut members = av.set_in(1, loom_core::allocator_api2::alloc::Global)?;
/// members.insert(av.insert(&endpoint.whole().address()?)?)?;
/// let group = endpoint.whole().join_collective(&members)?;
/// let barrier = cq.retry(Forever, || group.barrier())?;
/// assert!(cq.finish_value(barrier, Forever)?.result().is_ok());
/// # Ok::<_, loom_core::Error>(())
/// ```
#[doc(alias = "FI_COLLECTIVE")]
#[derive(Clone, Copy, Debug)]
pub enum CollectiveOps {}

impl Sealed for CollectiveOps {}

impl Query for CollectiveOps {
    type Kind = AnyType;
    type Groups = Set;
    const CAPS: Caps = Caps::COLLECTIVE;
}

/// Capabilities without operations of their own, as bits of [`Caps`]:
/// `Capable<{ Caps::FENCE.bits() }>`.
///
/// Operations that need one (a fence, a receive from one peer, device memory) are refused at run
/// time without it.
///
/// ```
/// use loom_static::protocol::{MsgRecv, MsgSend};
/// use loom_static::query::{Capable, Messages, Query};
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::{Av, Caps, Cq, Domain, Forever, Source};
///
/// /// Messages, and the address of their sender.
/// type Wanted = (Messages, Capable<{ Caps::SOURCE.bits() }>);
/// # let network = Network::new(NetworkAttr::default())?;
/// let domain = Domain::open(&network.query(&Wanted::HINTS)?)?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// let [mut alice, mut bob] = [Wanted::endpoint(&cq, &av)?, Wanted::endpoint(&cq, &av)?];
/// let [to_alice, to_bob] = [av.insert(&alice.whole().address()?)?, av.insert(&bob.whole().address()?)?];
/// let received = bob.recv(Source::Any, vec![0; 5])?;
/// cq.post(b"hello".to_vec(), Forever, |message| alice.send(to_bob, message))?;
/// let source = cq.finish(received, Forever)?.result()?.source;
/// assert_eq!(source.and_then(|source| av.peer(source)), Some(to_alice));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Capable<const BITS: u64> {}

impl<const BITS: u64> Sealed for Capable<BITS> {}

impl<const BITS: u64> Query for Capable<BITS> {
    type Kind = AnyType;
    type Groups = Set;
    const CAPS: Caps = Caps::from_bits_retain(BITS);
}
