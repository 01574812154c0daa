//! Putting addresses into an [`Av`]: one, many at once, by name, and by range.

#![allow(unsafe_code, reason = "inserts into raw handles")]

use core::array;
use core::fmt;
use core::net::SocketAddr;

use super::Av;
use super::symmetric::Range;
use crate::engine::peer_table::Peer;
use crate::transport::Transport;
use crate::vocabulary::{EndpointAddr, Errno, FabricAddr};

/// Why an address was not inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertError {
    /// The vector has no place left.
    Full,
    /// The provider refused the address.
    Errno(Errno),
}

impl fmt::Display for InsertError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InsertError::Full => f.write_str("the address vector has no place left"),
            InsertError::Errno(errno) => write!(f, "the provider refused the address: {errno}"),
        }
    }
}

impl core::error::Error for InsertError {}

/// How many addresses are inserted under one lock, and told of from the stack.
const BATCH: usize = 32;

/// How many addresses of a range are on the stack at a time: each takes half a KiB.
const WRITTEN: usize = 8;

impl<T: Transport> Av<'_, T> {
    /// Puts a peer's address into the vector. The same address again is the same peer (over `sockets` it is another).
    ///
    /// # Errors
    /// - [`InsertError::Full`] if no place is left
    /// - [`InsertError::Errno`] if the provider refuses: a foreign format, or an address that means nothing to it
    ///
    /// # References
    /// - `man fi_av`
    #[doc(alias = "fi_av_insert")]
    pub fn insert(&self, address: &EndpointAddr) -> Result<Peer, InsertError> {
        let _changing = self.changing.lock();
        // SAFETY: the vector is open.
        let addr = unsafe { T::av_insert(&self.raw, address) }.map_err(InsertError::Errno)?;
        self.keep(addr)
    }

    /// Puts the addresses of many peers into the vector, as [`insert`](Self::insert) does with each, and tells `each`, in their
    /// order, what has become of them. Returns how many are in.
    ///
    /// An address that is refused does not keep the others out. It takes fewer calls of the provider than one for each address,
    /// where that reads socket addresses. `each` may use the vector. If it panics, some of the addresses that it was not
    /// told of yet are in the vector, and the rest is not.
    ///
    /// ```
    /// # use loom_core::objects::{av::Av, cq::{Cq, CqAttr}, domain::Domain};
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.info())?;
    /// # let av = Av::open(&domain, 8)?;
    /// # let cq = Cq::<_, Box<[u8]>>::open(&domain, CqAttr::<8>::new())?;
    /// # let (a, b) = (cq.endpoint(&av).enable()?, cq.endpoint(&av).enable()?);
    /// let addresses = [a.address()?, b.address()?];
    /// let mut peers = Vec::with_capacity(addresses.len());
    /// let inserted = av.insert_all(&addresses, |peer| peers.push(peer));
    /// assert_eq!(inserted, 2);
    /// assert!(peers.iter().all(Result::is_ok));
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # References
    /// - `man fi_av`
    #[doc(alias = "fi_av_insert")]
    pub fn insert_all(&self, addresses: &[EndpointAddr], mut each: impl FnMut(Result<Peer, InsertError>)) -> usize {
        addresses.chunks(BATCH).map(|some| self.insert_some(some, &mut each)).sum()
    }

    /// As [`insert_all`](Self::insert_all), of no more than `BATCH`.
    fn insert_some(&self, addresses: &[EndpointAddr], each: &mut impl FnMut(Result<Peer, InsertError>)) -> usize {
        let mut found = [Err(Errno::ECANCELED); BATCH];
        let mut peers = [Err(InsertError::Full); BATCH];
        let changing = self.changing.lock();
        let found = found.get_mut(..addresses.len()).unwrap_or_default();
        // SAFETY: the vector is open, and there are as many results as addresses.
        unsafe { T::av_insert_all(&self.raw, addresses, found) };
        for (peer, found) in peers.iter_mut().zip(&*found) {
            *peer = found
                .map_err(InsertError::Errno)
                .and_then(|addr| self.table.insert(addr).map_err(|_| InsertError::Full));
        }
        for (at, (result, peer)) in found.iter().zip(&peers).enumerate() {
            // An address that was there twice is taken out once.
            let again = found.iter().take(at).any(|before| before == result);
            if let (Ok(addr), Err(InsertError::Full), false) = (result, peer, again) {
                self.take_back(*addr);
            }
        }
        drop(changing);
        let peers = peers.into_iter().take(addresses.len());
        peers.inspect(|peer| each(*peer)).filter(Result::is_ok).count()
    }

    /// Puts peers at consecutive addresses into the vector: `services` ports from that of `first` on, at each of `nodes`
    /// addresses from that of `first` on. Tells `each` what has become of them, all services of a node before the next node,
    /// and returns how many are in, as [`insert_all`](Self::insert_all) does.
    ///
    /// For providers with socket addresses. They are counted up here and not by `fi_av_insertsym`, which `udp;ofi_rxd` does not
    /// have, which returns one handle for all over `sockets`, and which others let run on from the last port to port 0. Nodes
    /// that have names are inserted one by one ([`insert_service`](Self::insert_service)).
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
        let format = self.domain.attributes().addr_format;
        let range = Range::new(format, first, nodes, services).map_err(InsertError::Errno)?;
        if range.len() > self.table.places() as u64 {
            return Err(InsertError::Full);
        }
        let mut rest = range.addresses();
        let mut inserted = 0;
        loop {
            let mut written = 0;
            let some: [EndpointAddr; WRITTEN] = array::from_fn(|_| {
                let next = rest.next();
                written += usize::from(next.is_some());
                EndpointAddr::from(next.unwrap_or(first))
            });
            inserted += self.insert_some(some.get(..written).unwrap_or_default(), &mut each);
            if written < WRITTEN {
                return Ok(inserted);
            }
        }
    }

    /// Puts a peer into the vector by the name of its node and service, as `10.0.0.1` and `7471`, or by the text of its
    /// address alone. Names are looked up by the provider, which may take its time.
    ///
    /// # Errors
    /// As [`insert`](Self::insert); `ENOSYS` if the provider takes addresses only.
    ///
    /// # References
    /// - `man fi_av`
    #[doc(alias = "fi_av_insertsvc")]
    pub fn insert_service(&self, node: &str, service: Option<&str>) -> Result<Peer, InsertError> {
        let _changing = self.changing.lock();
        // SAFETY: the vector is open.
        let addr = unsafe { T::av_insert_service(&self.raw, node, service) }.map_err(InsertError::Errno)?;
        self.keep(addr)
    }

    /// Makes a peer of an address that was just inserted, while nobody else changes the vector.
    fn keep(&self, addr: FabricAddr) -> Result<Peer, InsertError> {
        self.table.insert(addr).map_err(|_| {
            self.take_back(addr);
            InsertError::Full
        })
    }

    /// Removes an address for which there is no place, while nobody else changes the vector.
    fn take_back(&self, addr: FabricAddr) {
        // SAFETY: the vector is open; no peer was made of the address, so nothing can have been posted to it.
        let _ = unsafe { T::av_remove(&self.raw, addr) };
    }
}
