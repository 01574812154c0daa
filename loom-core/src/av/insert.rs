#![allow(unsafe_code, reason = "inserts into raw handles")]

use core::fmt;
use core::net::SocketAddr;

use super::Av;
use super::retired::Addresses;
use crate::engine::address_table::{AddressTable, Inserted, RangePeer, SymmetricRange};
use crate::engine::peer_table::Peer;
use crate::transport::Transport;
use crate::util::log::note;
use crate::vocabulary::{AddressError, AddressFormat, EndpointAddr, Errno, FabricAddr};

impl<T: Transport> Av<'_, T> {
    /// Inserts a peer's address. The [same address](crate::engine::address_table), in any notation,
    /// returns the same peer.
    ///
    /// If the provider assigns the slot of another peer, that peer is removed: posts to it fail
    /// with [`PostError::UnknownPeer`](crate::error::PostError::UnknownPeer). Over the software
    /// transport, a new endpoint's address displaces that of the closed endpoint in its place.
    ///
    /// ```
    /// use loom_core::{Forever, Source};
    ///
    /// # fixture::queue!(network, domain, av, cq);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// // The peer tells its address over a socket, or in a file.
    /// let address = bob.address()?;
    /// let to_bob = av.insert(&address)?;
    /// let received = bob.recv(Source::Any, vec![0; 5])?;
    /// cq.post(b"hello".to_vec(), Forever, |message| alice.send(to_bob, message))?;
    /// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`AddressError::Full`], [`AddressError::OutOfBytes`], [`AddressError::TooManyPeers`] over a
    /// provider with a maximum for a vector's lifetime (`shm`), or [`AddressError::Errno`] for a
    /// foreign format or an address that the provider rejects.
    ///
    /// # References
    /// - `man fi_av`
    #[doc(alias = "fi_av_insert")]
    pub fn insert(&self, address: &EndpointAddr) -> Result<Peer, AddressError> {
        self.insert_by(address, |table, addr| table.insert_at(addr, address))
    }

    fn insert_by(
        &self,
        address: &EndpointAddr,
        insert: impl Fn(&mut AddressTable<'static>, FabricAddr) -> Result<Inserted, AddressError>,
    ) -> Result<Peer, AddressError> {
        let try_insert = || {
            let mut addresses = self.body.addresses()?;
            if let Some(peer) = addresses.find(address) {
                return Ok(peer);
            }
            if !self.make_room(&mut addresses) {
                return Err(AddressError::Full);
            }
            // SAFETY: open (H1).
            let addr = unsafe { T::av_insert(&self.body.raw, address) }.map_err(|errno| self.refused(errno))?;
            self.keep(&mut addresses, addr, |table| insert(table, addr))
        };
        try_insert().inspect_err(|error| self.note_refused(address, *error))
    }

    fn note_refused(&self, address: &dyn fmt::Display, error: AddressError) {
        note!(debug, "quirk", "address {address} is not inserted on {}: {error:#}", *self.body.domain);
    }

    fn refused(&self, errno: Errno) -> AddressError {
        match self.body.limit {
            Some(limit) if errno == Errno::ENOSPC => AddressError::TooManyPeers { limit },
            _ => errno.into(),
        }
    }

    fn make_room(&self, addresses: &mut Addresses) -> bool {
        let has_room = addresses.has_room();
        while has_room && addresses.is_full() && self.reclaim(addresses) {}
        has_room
    }

    fn reclaim(&self, addresses: &mut Addresses) -> bool {
        let Some(addr) = addresses.oldest() else { return false };
        // SAFETY: open (H1), and the address was inserted and not removed since. Only a transport
        // that allows removal at any time retires addresses (O1).
        let _ = unsafe { T::av_remove(&self.body.raw, addr) };
        true
    }

    /// [Inserts](Self::insert) many addresses. `each` receives the results in order. Returns the
    /// number of inserted peers.
    ///
    /// ```
    /// # use loom_core::{Av, Cq, CqAttr};
    /// # fixture::domain!(network, domain);
    /// # let av = Av::open(&domain, 8)?;
    /// # let cq = Cq::<_, Box<[u8]>>::open(&domain, CqAttr::new(8))?;
    /// # let (a, b) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
    /// let addresses = [a.address()?, b.address()?];
    /// let mut peers = Vec::with_capacity(addresses.len());
    /// let inserted = av.insert_all(&addresses, |peer| peers.push(peer));
    /// assert_eq!(inserted, 2);
    /// assert!(peers.iter().all(Result::is_ok));
    /// # Ok::<_, Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # References
    /// - `man fi_av`
    #[doc(alias = "fi_av_insert")]
    pub fn insert_all(&self, addresses: &[EndpointAddr], each: impl FnMut(Result<Peer, AddressError>)) -> usize {
        count_inserted(addresses.iter().map(|address| self.insert(address)), each)
    }

    /// Inserts peers at consecutive addresses: `services` ports from that of `first`, at each of
    /// `nodes` addresses. `each` receives the results in order. Returns the number of inserted
    /// peers.
    ///
    /// Peers with consecutive slots share one record and need no other memory
    /// ([`AvAttr::ranges`](super::AvAttr::ranges)).
    ///
    /// Requires socket addresses. Insert named nodes by [`insert_service`](Self::insert_service).
    ///
    /// ```
    /// use loom_core::{AddressError, Av, Errno, Peer, Transport};
    ///
    /// /// The peers of a cluster: 16 hosts from 10.0.0.1 on, with eight processes each from port 7471 on.
    /// fn cluster<T: Transport>(av: &Av<'_, T>) -> Result<Vec<Peer>, AddressError> {
    ///     let mut peers = Vec::new();
    ///     let first = "10.0.0.1:7471".parse().expect("a socket address");
    ///     av.insert_symmetric(first, 16, 8, |peer| peers.extend(peer.ok()))?;
    ///     Ok(peers)
    /// }
    /// # fixture::domain!(network, domain);
    /// // The software transport has no socket addresses.
    /// assert_eq!(cluster(&Av::open(&domain, 128)?), Err(AddressError::Errno(Errno::ENOSYS)));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// No peer is inserted:
    /// - [`AddressError::Full`] for more addresses than the vector has slots
    /// - [`AddressError::Errno`] with `ENOSYS` if the provider's addresses are not sockets,
    ///   `EINVAL` if `first` has another family or port 0, or the range exceeds the last port or
    ///   address
    ///
    /// # References
    /// - `man fi_av`
    #[doc(alias = "fi_av_insertsym")]
    pub fn insert_symmetric(
        &self,
        first: SocketAddr,
        nodes: u32,
        services: u16,
        each: impl FnMut(Result<Peer, AddressError>),
    ) -> Result<usize, AddressError> {
        let is_family = match self.body.domain.attributes().addr_format {
            AddressFormat::SOCKADDR_IN => first.is_ipv4(),
            AddressFormat::SOCKADDR_IN6 => first.is_ipv6(),
            AddressFormat::SOCKADDR | AddressFormat::SOCKADDR_IP => true,
            _ => return Err(AddressError::Errno(Errno::ENOSYS)),
        };
        let range = SymmetricRange::new(first, nodes, services).filter(|_| is_family);
        let range = range.ok_or(AddressError::Errno(Errno::EINVAL))?;
        if range.len() > self.body.addresses()?.most() as u64 {
            return Err(AddressError::Full);
        }
        let insert =
            |member: RangePeer| self.insert_by(&member.socket().into(), |table, addr| table.insert_at(addr, &member));
        Ok(count_inserted(range.members().map(insert), each))
    }

    /// Inserts a peer by the name of its node and service, such as `10.0.0.1` and `7471`, or by its
    /// address text alone. Blocks while a name is resolved.
    ///
    /// ```
    /// # fixture::queue!(network, domain, av, cq);
    /// # let bob = cq.endpoint(&av)?;
    /// // The text comes from a configuration file. Over `tcp` a host's name and a service will do.
    /// let text = bob.address()?.to_string();
    /// let to_bob = av.insert_service(&text, None)?;
    /// assert_eq!(av.find(&bob.address()?), Some(to_bob));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`insert`](Self::insert), and `ENOSYS` if the provider takes addresses only.
    ///
    /// # References
    /// - `man fi_av`
    #[doc(alias = "fi_av_insertsvc")]
    pub fn insert_service(&self, node: &str, service: Option<&str>) -> Result<Peer, AddressError> {
        self.try_insert_service(node, service).inspect_err(|error| self.note_refused(&node, *error))
    }

    fn try_insert_service(&self, node: &str, service: Option<&str>) -> Result<Peer, AddressError> {
        let mut addresses = self.body.addresses()?;
        // The provider has space for one address more than the vector counts.
        let has_room = self.make_room(&mut addresses);
        // SAFETY: open (H1).
        let addr =
            unsafe { T::av_insert_service(&self.body.raw, node, service) }.map_err(|errno| self.refused(errno))?;
        // SAFETY: open (H1), and the address was just inserted.
        let address = unsafe { T::av_lookup(&self.body.raw, addr) };
        let peer = match &address {
            Ok(address) => addresses.find(address),
            Err(_) => self.body.table.peer(addr),
        };
        if let Some(peer) = peer {
            // Some providers count insertions, others assign another slot.
            if addresses.are_removed() {
                self.undo_insert(&addresses, addr);
            }
            return Ok(peer);
        }
        if !has_room {
            self.undo_insert(&addresses, addr);
            return Err(AddressError::Full);
        }
        self.keep(&mut addresses, addr, |table| match &address {
            Ok(address) => table.insert_at(addr, address),
            Err(_) => table.insert_unnamed_at(addr),
        })
    }

    /// Takes the address back if no peer has it afterwards.
    fn keep(
        &self,
        addresses: &mut Addresses,
        addr: FabricAddr,
        insert: impl Fn(&mut AddressTable<'static>) -> Result<Inserted, AddressError>,
    ) -> Result<Peer, AddressError> {
        let inserted = loop {
            match insert(&mut addresses.table) {
                Err(AddressError::OutOfBytes) if self.reclaim(addresses) => {}
                inserted => break inserted,
            }
        };
        let peer = inserted.map(Inserted::peer);
        let is_its = peer.is_ok_and(|peer| self.body.table.addr(peer) == Some(addr));
        if !is_its && self.body.table.peer(addr).is_none() {
            self.undo_insert(addresses, addr);
        }
        peer
    }

    /// Operations in flight may refer to the address: unless the transport removes addresses at any
    /// time, it stays until the vector closes.
    fn undo_insert(&self, addresses: &Addresses, addr: FabricAddr) {
        if addresses.are_removed() || !self.body.is_bound() || !self.body.table.was_used(addr) {
            // SAFETY: the vector is open (H1). The transport allows removal, no endpoint is bound,
            // or no peer ever had the address, so no post refers to it (O1).
            let _ = unsafe { T::av_remove(&self.body.raw, addr) };
        }
    }
}

fn count_inserted(
    results: impl Iterator<Item = Result<Peer, AddressError>>,
    mut each: impl FnMut(Result<Peer, AddressError>),
) -> usize {
    results.inspect(|result| each(*result)).filter(Result::is_ok).count()
}
