use allocator_api2::alloc::Allocator;
use loom_core::buffer::{Buffer, SourceBuffer, TargetBuffer};
use loom_core::cq::CqError;
use loom_core::error::Rejected;
use loom_core::{Deadline, Transport};

use crate::request_slot::Place;
use crate::scope::{Request, Scope, Summary};
use crate::{Group, PeerIndex, PeerRegion};

/// Each takes work while places are free, and leaves the rest in the iterator. Each request has one
/// [`Outcome`](crate::Outcome).
///
/// # Errors
/// See [`Scope::finish`]. Requests in flight were cancelled.
impl<'m, T: Transport, B: Buffer, A: Allocator> Group<'m, T, B, A> {
    /// Sends a message to each peer.
    ///
    /// ```
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// use loom_core::{Domain, Forever};
    /// use loom_group::{PeerIndex, Place, Prepared};
    ///
    /// # let domain = Domain::open(&network.info())?;
    /// # let prepared = Prepared::open(&domain, 2, 16)?;
    /// # let itself = prepared.address()?;
    /// // Both members are this side.
    /// let group = prepared.connect([&itself; 2])?;
    /// let rooms = [group.recv_any(vec![0; 4])?, group.recv_any(vec![0; 4])?];
    /// let mut places = [Place::EMPTY, Place::EMPTY];
    /// let work = [(PeerIndex(0), b"to 0".to_vec()), (PeerIndex(1), b"to 1".to_vec())];
    /// let summary = group.scatter_send(work, &mut places, Forever)?;
    /// assert!(summary.is_complete());
    /// assert_eq!(places[1].take_buf(), Some(b"to 1".to_vec()), "the message comes back");
    /// for room in rooms {
    ///     assert_eq!(&group.cq().finish(room, Forever)?.into_buf()[..3], b"to ");
    /// }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    pub fn scatter_send(
        &self,
        work: impl IntoIterator<Item = (PeerIndex, B)>,
        places: &mut [Place<'m, T, B>],
        until: impl Deadline,
    ) -> Result<Summary, CqError>
    where
        B: SourceBuffer,
    {
        self.each(work, places, until, |scope, (peer, buf)| scope.send(peer, buf))
    }

    /// Receives a message from each peer, with directed receives like [`Group::recv`]. Over `shm`,
    /// and over `tcp` and `tcp;ofi_rxm` of libfabric 2, use tagged messages in a
    /// [scope](Group::scope) instead.
    pub fn gather_recv(
        &self,
        work: impl IntoIterator<Item = (PeerIndex, B)>,
        places: &mut [Place<'m, T, B>],
        until: impl Deadline,
    ) -> Result<Summary, CqError>
    where
        B: TargetBuffer,
    {
        self.each(work, places, until, |scope, (peer, buf)| scope.recv(peer, buf))
    }

    /// Writes to a region of each peer.
    ///
    /// ```
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// use loom_core::{Access, Domain, Forever, Mr};
    /// use loom_group::{PeerIndex, PeerRegion, Place, Prepared};
    ///
    /// # let domain = Domain::open(&network.info())?;
    /// # let prepared = Prepared::open(&domain, 2, 16)?;
    /// # let itself = prepared.address()?;
    /// # let group = prepared.connect([&itself; 2])?;
    /// // Both members are this side, and each has 8 bytes of this region.
    /// let region = Mr::open(group.domain(), vec![0; 16], Access::REMOTE_READ | Access::REMOTE_WRITE)?;
    /// let part = |peer: u32| {
    ///     let start = u64::from(peer) * 8;
    ///     PeerRegion::new(PeerIndex(peer), region.remote()).slice(start..start + 8).expect("it lies within the region")
    /// };
    /// let mut places = [const { Place::EMPTY }; 2];
    /// let work = [0, 1].map(|peer| (part(peer), vec![peer as u8 + 1; 8]));
    /// assert!(group.scatter_write(work, &mut places, Forever)?.is_complete());
    /// let work = [1, 0].map(|peer| (part(peer), vec![0; 8]));
    /// assert!(group.gather_read(work, &mut places, Forever)?.is_complete());
    /// assert_eq!(places.each_mut().map(|place| place.take_buf()), [Some(vec![2; 8]), Some(vec![1; 8])]);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    pub fn scatter_write(
        &self,
        work: impl IntoIterator<Item = (PeerRegion, B)>,
        places: &mut [Place<'m, T, B>],
        until: impl Deadline,
    ) -> Result<Summary, CqError>
    where
        B: SourceBuffer,
    {
        self.each(work, places, until, |scope, (to, buf)| scope.write(&to, buf))
    }

    /// Reads from a region of each peer.
    pub fn gather_read(
        &self,
        work: impl IntoIterator<Item = (PeerRegion, B)>,
        places: &mut [Place<'m, T, B>],
        until: impl Deadline,
    ) -> Result<Summary, CqError>
    where
        B: TargetBuffer,
    {
        self.each(work, places, until, |scope, (from, buf)| scope.read(&from, buf))
    }

    /// Sends clones of one message, such as `&[u8]`, to each peer.
    pub fn multicast_send(
        &self,
        peers: impl IntoIterator<Item = PeerIndex>,
        message: &B,
        places: &mut [Place<'m, T, B>],
        until: impl Deadline,
    ) -> Result<Summary, CqError>
    where
        B: SourceBuffer + Clone,
    {
        self.each(peers, places, until, |scope, peer| scope.send(peer, message.clone()))
    }

    /// Sends a message to each peer, and receives one from each. Work is the peer, the message, and
    /// the receive buffer, in two places: the receive, then the send.
    ///
    /// Work beyond the queue's room for all receives and one send stays in the iterator.
    ///
    /// # Errors
    /// See [`Scope::finish`]. [`CqError::Full`] if the queue has fewer than two free slots: all
    /// work stays in the iterator.
    pub fn exchange(
        &self,
        work: impl IntoIterator<Item = (PeerIndex, B, B)>,
        places: &mut [Place<'m, T, B>],
        until: impl Deadline,
    ) -> Result<Summary, CqError>
    where
        B: SourceBuffer + TargetBuffer,
    {
        let room = self.cq().free_slots().saturating_sub(1);
        if room == 0 && places.len() >= 2 {
            return Err(CqError::Full);
        }
        let pairs = (places.len() / 2).min(room);
        let places = places.get_mut(..pairs * 2).unwrap_or_default();
        self.each(work, places, until, |scope, (peer, message, room)| {
            scope.recv(peer, room)?;
            scope.send(peer, message)
        })
    }

    fn each<W>(
        &self,
        work: impl IntoIterator<Item = W>,
        places: &mut [Place<'m, T, B>],
        until: impl Deadline,
        request: impl Fn(&mut Scope<'_, 'm, T, B, A>, W) -> Result<Request, Rejected<B>>,
    ) -> Result<Summary, CqError> {
        self.is_not_driven()?;
        let mut work = work.into_iter();
        let mut scope = self.open_scope(places);
        while scope.room() > 0
            && let Some(one) = work.next()
        {
            let _ = request(&mut scope, one);
        }
        scope.finish(until)
    }
}
