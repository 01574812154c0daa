//! Putting addresses into an [`Av`]: one, many at once, by name, and by range.

#![allow(unsafe_code, reason = "inserts into raw handles")]

use core::fmt;
use core::net::SocketAddr;

use super::Av;
use super::removed::Addresses;
use crate::engine::address_table::{AddressTable, Full, Inserted, RangePeer, SymmetricRange};
use crate::engine::peer_table::Peer;
use crate::error::OTHER_PROCESS;
use crate::notes::note;
use crate::transport::Transport;
use crate::vocabulary::{AddressFormat, EndpointAddr, Errno, FabricAddr};

/// Why an address was not inserted.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::allocator_api2::alloc::Global;
/// use loom_core::av::InsertError;
/// use loom_core::{Av, AvAttr, Cq, Domain};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let cq = Cq::<_, Vec<u8>>::open(&domain, 16)?;
/// // This vector has no room for the bytes of addresses.
/// let av = Av::open_in(&domain, AvAttr { bytes: Some(0), ..AvAttr::new(2) }, Global)?;
/// let address = cq.endpoint(&av)?.address()?;
/// assert_eq!(av.insert(&address), Err(InsertError::Full));
/// // The software transport refuses the address of a host.
/// let host = "10.0.0.1:7471".parse()?;
/// assert!(matches!(Av::open(&domain, 2)?.insert(&host), Err(InsertError::Errno(_))));
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertError {
    /// The vector has no place left, or no room for the bytes of the address ([`AvAttr`](super::AvAttr)).
    Full,
    /// This process is a forked child, and its parent opened the vector. The child opens a vector of its own.
    OtherProcess,
    /// The provider has taken as many addresses as it takes in the lifetime of a vector, removed ones included
    /// ([`AvAttr::capacity`](super::AvAttr::capacity)).
    TooManyPeers {
        /// Maximum number of addresses in the lifetime of a vector.
        limit: usize,
    },
    /// The provider refused the address.
    Errno(Errno),
}

impl From<Errno> for InsertError {
    fn from(errno: Errno) -> Self {
        if errno == Errno::OTHER_PROCESS { InsertError::OtherProcess } else { InsertError::Errno(errno) }
    }
}

impl fmt::Display for InsertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InsertError::Full => {
                f.write_str("the address vector has no room left: raise `AvAttr::capacity`, or remove peers")
            }
            InsertError::OtherProcess => f.write_str(OTHER_PROCESS),
            InsertError::TooManyPeers { limit } => write!(
                f,
                "the provider takes no more addresses into this vector ({limit} in its lifetime), or not this one: open another vector and \
                 endpoint, or check the address"
            ),
            InsertError::Errno(errno) => write!(f, "the transport refused the address: {errno}"),
        }
    }
}

impl core::error::Error for InsertError {}

impl<T: Transport> Av<'_, T> {
    /// Puts a peer's address into the vector. The same address again is the same peer, however it is written
    /// ([which addresses are the same](crate::engine::address_table)), and the provider is not asked.
    ///
    /// If the provider gives the new address the place in its own vector that another peer has here, that peer is removed: its handle
    /// goes stale, and posts to it are refused with [`PostError::UnknownPeer`](crate::error::PostError::UnknownPeer). Over the
    /// software transport a place is that of the endpoint in the network, so that the address of a new endpoint displaces that of
    /// the closed endpoint before it. The address that was inserted last stays, also if it is the older one: an address that
    /// arrives after its endpoint has closed displaces the one of the endpoint that is there.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::{Av, Cq, Domain, Forever, Source};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
    /// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
    /// // The peer tells its address over a socket, or in a file.
    /// let address = bob.address()?;
    /// let to_bob = av.insert(&address)?;
    /// let received = bob.recv(Source::Any, vec![0; 5])?;
    /// cq.post(b"hello".to_vec(), Forever, |message| alice.send(to_bob, message))?;
    /// assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// - [`InsertError::Full`] if no place is left
    /// - [`InsertError::TooManyPeers`] if the provider takes no more addresses in the lifetime of a vector (`shm`)
    /// - [`InsertError::Errno`] if the provider refuses: a foreign format, or an address that means nothing to it
    ///
    /// # References
    /// - `man fi_av`
    #[doc(alias = "fi_av_insert")]
    pub fn insert(&self, address: &EndpointAddr) -> Result<Peer, InsertError> {
        self.insert_by(address, |table, addr| table.insert_at(addr, address))
    }

    /// Inserts an address: `insert` puts it into the table at its fabric address.
    fn insert_by(
        &self,
        address: &EndpointAddr,
        insert: impl Fn(&mut AddressTable<'static>, FabricAddr) -> Result<Inserted, Full>,
    ) -> Result<Peer, InsertError> {
        self.try_insert(address, insert).inspect_err(|error| self.note_refused(address, *error))
    }

    /// The provider's reasons are its own, and those of loom ([`ProviderQuirks`](crate::transport::ProviderQuirks)): for the log.
    fn note_refused(&self, address: &dyn fmt::Display, error: InsertError) {
        note!(debug, "quirk", "address {address} is not inserted on {}: {error}", *self.body.domain);
    }

    fn try_insert(
        &self,
        address: &EndpointAddr,
        insert: impl Fn(&mut AddressTable<'static>, FabricAddr) -> Result<Inserted, Full>,
    ) -> Result<Peer, InsertError> {
        let mut addresses = self.body.addresses()?;
        if let Some(peer) = addresses.find(address) {
            return Ok(peer);
        }
        if !self.make_room(&mut addresses) {
            return Err(InsertError::Full);
        }
        // SAFETY: the vector is open (C1).
        let addr = unsafe { T::av_insert(&self.body.raw, address) }.map_err(|errno| self.refused(errno))?;
        self.keep(&mut addresses, addr, |table| insert(table, addr))
    }

    /// The reason of an insertion that the provider has refused.
    fn refused(&self, errno: Errno) -> InsertError {
        match self.body.limit {
            Some(limit) if errno == Errno::ENOSPC => InsertError::TooManyPeers { limit },
            _ => errno.into(),
        }
    }

    /// Removes addresses of removed peers from the provider's vector, the oldest first, until another address has room. Returns `false`
    /// if the vector has as many peers as it has room for.
    fn make_room(&self, addresses: &mut Addresses) -> bool {
        let has_room = addresses.has_room();
        while has_room && addresses.is_full() && self.reclaim(addresses) {}
        has_room
    }

    /// Removes the address that was retired first from the provider's vector. Returns `false` if no address is retired.
    fn reclaim(&self, addresses: &mut Addresses) -> bool {
        let Some(addr) = addresses.oldest() else { return false };
        // SAFETY: the vector is open (C1); the address was inserted and not removed since; only a transport that admits it at any time
        // retires addresses (C13).
        let _ = unsafe { T::av_remove(&self.body.raw, addr) };
        true
    }

    /// Puts the addresses of many peers into the vector, as [`insert`](Self::insert) does with each. `each` gets the results in the
    /// order of the addresses, and may use the vector. Returns the number of those that are in.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// # use loom_core::{av::Av, cq::{Cq, CqAttr}, domain::Domain};
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// # let av = Av::open(&domain, 8)?;
    /// # let cq = Cq::<_, Box<[u8]>>::open(&domain, CqAttr::new(8))?;
    /// # let (a, b) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
    /// let addresses = [a.address()?, b.address()?];
    /// let mut peers = Vec::with_capacity(addresses.len());
    /// let inserted = av.insert_all(&addresses, |peer| peers.push(peer));
    /// assert_eq!(inserted, 2);
    /// assert!(peers.iter().all(Result::is_ok));
    /// # }
    /// # Ok::<_, Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # References
    /// - `man fi_av`
    #[doc(alias = "fi_av_insert")]
    pub fn insert_all(&self, addresses: &[EndpointAddr], mut each: impl FnMut(Result<Peer, InsertError>)) -> usize {
        count_inserted(addresses.iter().map(|address| self.insert(address)), &mut each)
    }

    /// Puts peers at consecutive addresses into the vector: `services` ports from that of `first` on, at each of `nodes`
    /// addresses from that of `first` on. Tells `each` what has become of them, all services of a node before the next node,
    /// and returns how many are in, as [`insert_all`](Self::insert_all) does.
    ///
    /// Those that get consecutive places, as they do in a vector from which no peer was removed, take one record together, and no
    /// more memory for their addresses ([`AvAttr::ranges`](super::AvAttr::ranges)).
    ///
    /// For providers with socket addresses. They are counted up here and not by `fi_av_insertsym`, which `udp;ofi_rxd` does not
    /// have, which returns one handle for all over `sockets`, and which others let run on from the last port to port 0. Nodes
    /// that have names are inserted one by one ([`insert_service`](Self::insert_service)).
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::av::InsertError;
    /// use loom_core::{Av, Domain, Errno, Peer, Transport};
    ///
    /// /// The peers of a cluster: 16 hosts from 10.0.0.1 on, with eight processes each from port 7471 on.
    /// fn cluster<T: Transport>(av: &Av<'_, T>) -> Result<Vec<Peer>, InsertError> {
    ///     let mut peers = Vec::new();
    ///     let first = "10.0.0.1:7471".parse().expect("a socket address");
    ///     av.insert_symmetric(first, 16, 8, |peer| peers.extend(peer.ok()))?;
    ///     Ok(peers)
    /// }
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// let av = Av::open(&domain, 128)?;
    /// // The software transport has no socket addresses.
    /// assert_eq!(cluster(&av), Err(InsertError::Errno(Errno::ENOSYS)));
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// None is inserted then:
    /// - [`InsertError::Full`] if there are more addresses than the vector has places
    /// - [`InsertError::Errno`] with `ENOSYS` if the provider's addresses are no socket addresses; `EINVAL` if they are not of the
    ///   family of `first`, if its port is 0, or if the range goes past the last port or address
    ///
    /// # References
    /// - `man fi_av`
    #[doc(alias = "fi_av_insertsym")]
    pub fn insert_symmetric(
        &self,
        first: SocketAddr,
        nodes: u32,
        services: u16,
        mut each: impl FnMut(Result<Peer, InsertError>),
    ) -> Result<usize, InsertError> {
        let is_family = match self.body.domain.attributes().addr_format {
            AddressFormat::SOCKADDR_IN => first.is_ipv4(),
            AddressFormat::SOCKADDR_IN6 => first.is_ipv6(),
            AddressFormat::SOCKADDR | AddressFormat::SOCKADDR_IP => true,
            _ => return Err(InsertError::Errno(Errno::ENOSYS)),
        };
        let range = SymmetricRange::new(first, nodes, services).filter(|_| is_family);
        let range = range.ok_or(InsertError::Errno(Errno::EINVAL))?;
        if range.len() > self.body.addresses()?.most() as u64 {
            return Err(InsertError::Full);
        }
        let insert = |member: RangePeer| {
            self.insert_by(&member.socket().into(), |table, addr| table.insert_member_at(addr, &member))
        };
        Ok(count_inserted(range.members().map(insert), &mut each))
    }

    /// Puts a peer into the vector by the name of its node and service, as `10.0.0.1` and `7471`, or by the text of its
    /// address alone. Names are looked up by the provider, which may take its time.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::{Av, Cq, Domain};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
    /// # let bob = cq.endpoint(&av)?;
    /// // The text comes from a configuration file. Over `tcp` a host's name and a service will do.
    /// let text = bob.address()?.to_string();
    /// let to_bob = av.insert_service(&text, None)?;
    /// assert_eq!(av.find(&bob.address()?), Some(to_bob));
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`insert`](Self::insert); `ENOSYS` if the provider takes addresses only.
    ///
    /// # References
    /// - `man fi_av`
    #[doc(alias = "fi_av_insertsvc")]
    pub fn insert_service(&self, node: &str, service: Option<&str>) -> Result<Peer, InsertError> {
        self.try_insert_service(node, service).inspect_err(|error| self.note_refused(&node, *error))
    }

    fn try_insert_service(&self, node: &str, service: Option<&str>) -> Result<Peer, InsertError> {
        let mut addresses = self.body.addresses()?;
        // The address of a peer needs no room. The provider has room for one address more than the vector counts.
        let has_room = self.make_room(&mut addresses);
        // SAFETY: the vector is open (C1).
        let addr =
            unsafe { T::av_insert_service(&self.body.raw, node, service) }.map_err(|errno| self.refused(errno))?;
        // SAFETY: the vector is open (C1), and the address was inserted just now.
        let address = unsafe { T::av_lookup(&self.body.raw, addr) };
        let peer = match &address {
            Ok(address) => addresses.find(address),
            Err(_) => self.body.table.peer(addr),
        };
        if let Some(peer) = peer {
            // Providers count how often an address was inserted. Others have given it another place.
            if addresses.are_removed() {
                self.take_back(&addresses, addr);
            }
            return Ok(peer);
        }
        if !has_room {
            self.take_back(&addresses, addr);
            return Err(InsertError::Full);
        }
        self.keep(&mut addresses, addr, |table| match &address {
            Ok(address) => table.insert_at(addr, address),
            Err(_) => table.insert_unnamed_at(addr),
        })
    }

    /// Keeps an address to which the provider gave a fabric address, while no other thread changes the vector, as `insert` does. If
    /// no peer has the fabric address then, it is taken back.
    fn keep(
        &self,
        addresses: &mut Addresses,
        addr: FabricAddr,
        insert: impl Fn(&mut AddressTable<'static>) -> Result<Inserted, Full>,
    ) -> Result<Peer, InsertError> {
        let inserted = loop {
            match insert(&mut addresses.table) {
                // Removed peers' addresses take room, too.
                Err(Full::Bytes) if self.reclaim(addresses) => {}
                inserted => break inserted,
            }
        };
        let peer = inserted.map(Inserted::peer).map_err(|_| InsertError::Full);
        let is_its = peer.is_ok_and(|peer| self.body.table.addr(peer) == Some(addr));
        if !is_its && self.body.table.peer(addr).is_none() {
            self.take_back(addresses, addr);
        }
        peer
    }

    /// Removes an address that no peer has, while no other thread changes the vector. Where one has had it, operations in flight may
    /// still refer to it: then it stays until the vector closes, unless the transport removes addresses at any time.
    fn take_back(&self, addresses: &Addresses, addr: FabricAddr) {
        if addresses.are_removed() || !self.body.is_bound() || !self.body.table.was_used(addr) {
            // SAFETY: the vector is open (C1); the transport admits it, no endpoint is bound, or no peer ever had the address, so that
            // nothing can have been posted to it (C13).
            let _ = unsafe { T::av_remove(&self.body.raw, addr) };
        }
    }
}

/// Passes each result on, and counts the peers.
fn count_inserted(
    results: impl Iterator<Item = Result<Peer, InsertError>>,
    each: &mut impl FnMut(Result<Peer, InsertError>),
) -> usize {
    let mut inserted = 0;
    for result in results {
        inserted += usize::from(result.is_ok());
        each(result);
    }
    inserted
}
