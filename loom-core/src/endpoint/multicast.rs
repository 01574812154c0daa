#![allow(unsafe_code, reason = "joins, uses and leaves raw groups")]

use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicU64, Ordering};

use super::binding::Binding;
use super::options::SendOptions;
use super::post::Op;
use super::{Connectionless, Endpoint};
use crate::av::Av;
use crate::buffer::{Buffer, SourceBuffer};
use crate::cq::Cq;
use crate::engine::op_table::OpKey;
use crate::eq::{EventQueue, JoinedEvent};
use crate::error::{OpenError, Rejected};
use crate::transport::Multicast;
use crate::transport::connected::Fid;
use crate::util::debug::debug_struct;
use crate::vocabulary::{Caps, EndpointAddr, Errno, OpFlags};

/// A connectionless endpoint for multicast groups, also bound to an event queue
/// ([`Cq::multicast_endpoint`]).
///
/// It [joins](Self::join) groups by address. Receives are posted on the endpoint itself.
///
/// ```
/// use loom_core::{EndpointAddr, Error, Source};
/// use loom_core::{endpoint::{Joining, MulticastEndpoint, MulticastGroup}, transport::Multicast};
///
/// /// Joins a group, whose messages arrive at the endpoint.
/// fn join<'m, T: Multicast>(
///     endpoint: &MulticastEndpoint<'m, T, Vec<u8>>, group: &EndpointAddr,
/// ) -> Result<MulticastGroup<'m, T, Vec<u8>, Joining>, Error> {
///     endpoint.recv(Source::Any, vec![0; 4096])?;
///     Ok(endpoint.join(group)?)
/// }
/// ```
///
/// # References
/// - `man fi_endpoint`, `man fi_cm`
#[doc(alias = "FI_MULTICAST")]
pub type MulticastEndpoint<'m, T, B> = Endpoint<'m, T, B, Connectionless<'m, T, EventQueue<'m, T>>>;

impl<'m, T: Multicast, B: Buffer> Cq<'m, T, B> {
    /// [`endpoint`](Self::endpoint) for multicast groups, also bound to an event queue, which
    /// reports joins.
    ///
    /// # Errors
    /// Those of [`endpoint`](Self::endpoint), [`OpenError::NotGranted`] without
    /// [`Caps::MULTICAST`], which hints must request, and [`OpenError::Errno`] with `EOPNOTSUPP`
    /// over a libfabric provider not known to leave groups, among them `udp` for an endpoint that
    /// only sends.
    #[doc(alias = "FI_MULTICAST")]
    pub fn multicast_endpoint(
        &self,
        bind: impl Into<Binding<'m, T, Av<'m, T>>>,
        eq: &EventQueue<'m, T>,
    ) -> Result<MulticastEndpoint<'m, T, B>, OpenError> {
        let bind = bind.into();
        let domain = self.domain();
        if !eq.domain().is(domain) {
            return Err(OpenError::OtherDomain);
        }
        let missing = Caps::MULTICAST.difference(bind.info.as_ref().unwrap_or_else(|| domain.info()).caps());
        if !missing.is_empty() {
            return Err(OpenError::NotGranted(missing));
        }
        let opened = bind.open_connectionless(self, Some(eq.bond()), |domain, info, bind| {
            // SAFETY: `open_connectionless` guarantees H1, H2, H4 and N1. The event queue is open
            // (H1), of this domain (H4), and stays open while bound (G1).
            unsafe { T::multicast_endpoint_open(domain, info, bind, eq.raw()) }
        })?;
        Ok(Endpoint { opened, kind: Connectionless { av: bind.to.clone(), eq: eq.clone() } })
    }
}

impl<'m, T: Multicast, B: Buffer> MulticastEndpoint<'m, T, B> {
    /// Joins the group at `address`, a multicast address with the members' port, to send and
    /// receive. The event queue reports the join.
    ///
    /// To receive, the endpoint must be open at that port, and at the group's address or every
    /// address of its host ([`Hints::node`](crate::info::Hints::node) and `service` of its info).
    /// `udp` does not share ports: members on one host need a port each, and a message reaches only
    /// one of them.
    ///
    /// # Errors
    /// - `EINVAL` if `address` is not a group's, or has another format than the endpoint's
    /// - `EADDRINUSE` if the endpoint is in that group, even if the group's value was forgotten
    /// - `ENOBUFS` beyond eight groups, or the system's limit
    /// - `ENODEV` without an interface for such addresses
    /// - `EOPNOTSUPP` over libfabric without feature `std`, needed to check with the system
    /// - another error of the provider, for example `ENOSYS` from `udp` for IPv6
    #[doc(alias = "fi_join")]
    pub fn join(&self, address: &EndpointAddr) -> Result<MulticastGroup<'m, T, B, Joining>, Errno> {
        // Unique in the program, because providers reuse their identifiers.
        static JOINS: AtomicU64 = AtomicU64::new(1);

        let context = JOINS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: handles keep H1 and T3, and the endpoint was opened for multicast (G1).
        let raw = unsafe { T::join(self.raw(), address, context) }?;
        Ok(MulticastGroup { member: Membership { endpoint: self.clone(), raw, context }, state: PhantomData })
    }

    /// Event queue for the endpoint's groups.
    #[must_use]
    pub const fn eq(&self) -> &EventQueue<'m, T> {
        &self.kind.eq
    }
}

/// State between joining and the event with the outcome.
///
/// ```
/// use loom_core::{endpoint::{Joining, MulticastGroup}, eq::JoinedEvent, transport::Multicast};
///
/// /// Returns the joined group, or the unchanged group if the event is about another one.
/// fn joined<'m, T: Multicast>(
///     group: MulticastGroup<'m, T, Vec<u8>, Joining>, event: &JoinedEvent,
/// ) -> Result<MulticastGroup<'m, T, Vec<u8>>, MulticastGroup<'m, T, Vec<u8>, Joining>> {
///     group.joined(event)
/// }
/// ```
#[derive(Debug)]
pub enum Joining {}

/// State of a joined group.
///
/// ```
/// use loom_core::{Cq, Error, Forever, SendOptions, endpoint::{Joined, MulticastGroup}, transport::Multicast};
///
/// /// Sends to a group. A group that is still being joined has no `send`.
/// fn tell<T: Multicast>(cq: &Cq<'_, T, Vec<u8>>, group: &MulticastGroup<'_, T, Vec<u8>, Joined>) -> Result<(), Error> {
///     let sent = cq.post(b"news".to_vec(), Forever, |message| group.send_with(SendOptions::default(), message))?;
///     cq.finish(sent, Forever)?.result()?;
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub enum Joined {}

/// A multicast group of an endpoint, and a handle of it. Dropping it leaves the group.
///
/// | state | left by |
/// |---|---|
/// | [`Joining`] | [`joined`](MulticastGroup::joined), with the event |
/// | [`Joined`] | dropping it |
///
/// ```
/// use loom_core::{Cq, Error, Forever, SendOptions, endpoint::MulticastGroup, transport::Multicast};
///
/// /// Sends one message to all members, and leaves the group.
/// fn say_goodbye<T: Multicast>(
///     cq: &Cq<'_, T, Vec<u8>>,
///     group: MulticastGroup<'_, T, Vec<u8>>,
/// ) -> Result<(), Error> {
///     let sent = cq.post(b"goodbye".to_vec(), Forever, |message| group.send_with(SendOptions::default(), message))?;
///     cq.finish(sent, Forever)?.result()?;
///     Ok(group.leave()?)
/// }
/// ```
///
/// # References
/// - `man fi_cm`
#[doc(alias = "fid_mc")]
pub struct MulticastGroup<'m, T: Multicast, B: Buffer, S = Joined> {
    member: Membership<'m, T, B>,
    state: PhantomData<S>,
}

struct Membership<'m, T: Multicast, B: Buffer> {
    endpoint: MulticastEndpoint<'m, T, B>,
    raw: T::Group,
    context: u64,
}

impl<T: Multicast, B: Buffer> Drop for Membership<'_, T, B> {
    fn drop(&mut self) {
        // SAFETY: joined on this endpoint, which is open, and left once (G2). If leaving fails,
        // closing the endpoint leaves the group (P12).
        let _ = unsafe { T::leave(self.endpoint.raw(), &self.raw) };
    }
}

impl<'m, T: Multicast, B: Buffer, S> MulticastGroup<'m, T, B, S> {
    /// Identifier of the group in events.
    #[must_use]
    pub fn fid(&self) -> Fid {
        T::group_fid(&self.member.raw)
    }

    /// Endpoint in the group.
    #[must_use]
    pub const fn endpoint(&self) -> &MulticastEndpoint<'m, T, B> {
        &self.member.endpoint
    }

    /// Leaves the group, like dropping it, and returns the result. Operations in flight continue.
    ///
    /// # Errors
    /// Those of the provider. The endpoint then stays in the group until it closes.
    #[doc(alias = "fi_close")]
    pub fn leave(self) -> Result<(), Errno> {
        let mut member = ManuallyDrop::new(self.member);
        // SAFETY: joined on this endpoint, which is open, and left once (G2), here: `ManuallyDrop`
        // prevents `drop`.
        let left = unsafe { T::leave(member.endpoint.raw(), &member.raw) };
        // SAFETY: dropped once, here.
        unsafe { core::ptr::drop_in_place(&raw mut member.endpoint) };
        left
    }
}

impl<'m, T: Multicast, B: Buffer> MulticastGroup<'m, T, B, Joining> {
    /// Returns the joined group, if the event concerns it.
    ///
    /// After an [`EqEvent::Failed`](crate::eq::EqEvent::Failed) with this [`fid`](Self::fid) drop
    /// this value.
    ///
    /// # Errors
    /// The unchanged group, for an event of another.
    #[expect(clippy::result_large_err, reason = "there is no allocator to box the group with")]
    pub fn joined(self, event: &JoinedEvent) -> Result<MulticastGroup<'m, T, B, Joined>, Self> {
        if event.context != self.member.context || event.group() != self.fid() {
            return Err(self);
        }
        Ok(MulticastGroup { member: self.member, state: PhantomData })
    }
}

impl<T: Multicast, B: Buffer> MulticastGroup<'_, T, B, Joined> {
    /// Sends a message to every member, including this endpoint if it receives there, from one or
    /// several buffers. Arrival is not reported.
    ///
    /// # Errors
    /// Those of [`Endpoint::send_with`].
    #[doc(alias = "fi_send")]
    #[doc(alias = "fi_sendmsg")]
    #[doc(alias = "fi_mc_addr")]
    pub fn send_with(&self, options: SendOptions, buf: B) -> Result<OpKey, Rejected<B>>
    where
        B: SourceBuffer,
    {
        let Membership { endpoint, raw, .. } = &self.member;
        let (limits, data) = (endpoint.limits(), options.data);
        let flags = limits.with_default(options.flags() | OpFlags::MULTICAST);
        // SAFETY: the event has reported that the group was joined on this endpoint, and it was not
        // left (G2). The address is used for `sendmsg` on this endpoint with `MULTICAST` (G3).
        let address = unsafe { T::group_address(raw) };
        let op = endpoint.opened.prepare_pieces(Op::Multicast { data }, flags, buf, address, limits.tx_iov_limit)?;
        // SAFETY: `op` guarantees H1, T1, L1 to L4 and O1, and the flag is `MULTICAST` (G3).
        let submitted = unsafe { T::sendmsg(op.raw, &op.msg(data, flags), None) };
        endpoint.opened.submitted(op, submitted)
    }
}

debug_struct!([T: Multicast, B: Buffer, S] MulticastGroup['_, T, B, S], |it| fid: it.fid());
