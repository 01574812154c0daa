#![allow(unsafe_code, reason = "implements unsafe traits")]

use core::ptr::NonNull;

use super::faults::required_modes::RequiredModes;
use super::faults::strict::{QUIRKS, Strict};
use super::faults::{Plan, Rules};
use super::handles::{SoftAv, SoftDomain, SoftFabric, SoftInfo};
use super::network::Network;
use super::network::reported_attributes::{PROVIDER, attributes};
use super::shared::address::{parse_address, parse_text, write_address};
use super::transport::Soft;
use crate::error::OpenError;
use crate::info::{Hints, Info, Nic};
use crate::transport::{AddressVectors, AvRoom, Fabrics, Name, ProviderQuirks};
use crate::vocabulary::{Attributes, EndpointAddr, Errno, FabricAddr};

impl<'n> Network<'n> {
    /// Returns the info to open domains with.
    #[must_use]
    pub fn info(&self) -> Info<Soft<'n>> {
        self.info_with_faults(Plan::new(0))
    }

    /// Returns an info with domains that require and check `modes`.
    #[must_use]
    pub fn info_requiring(&self, modes: RequiredModes) -> Info<Soft<'n>> {
        self.info_with_faults(Plan { required: modes, ..Plan::new(0) })
    }

    /// Returns an info for endpoints with faults. An endpoint uses the plan of its own info
    /// ([`Binding::info`](crate::endpoint::Binding::info)), otherwise its domain's.
    #[must_use]
    pub fn info_with_faults(&self, plan: Plan) -> Info<Soft<'n>> {
        self.granting(&Hints::default(), plan)
    }

    fn granting(&self, hints: &Hints<'_>, plan: Plan) -> Info<Soft<'n>> {
        let strict = self.net.attr.strict.then(|| Strict::of(hints));
        Info::from_raw(SoftInfo { net: self.net.clone(), rules: Rules { plan, strict } })
    }

    /// Returns the network's info if it satisfies the hints.
    ///
    /// # Errors
    /// [`OpenError::NotGranted`] with the missing capabilities, or [`OpenError::NotOffered`] with the
    /// other field of the hints that requests too much.
    ///
    /// ```
    /// use loom_core::{Caps, Hints, OpenError, soft::{Network, NetworkAttr}, vocabulary::TxAttributes};
    ///
    /// let network = Network::new(NetworkAttr::default())?;
    /// let hints = Hints { caps: Caps::MSG | Caps::MULTICAST, ..Hints::default() };
    /// assert_eq!(network.query(&hints).unwrap_err(), OpenError::NotGranted(Caps::MULTICAST));
    ///
    /// let tx_attr = TxAttributes { inject_size: 1 << 20, ..TxAttributes::default() };
    /// let hints = Hints { tx_attr, ..Hints::default() };
    /// assert_eq!(network.query(&hints).unwrap_err(), OpenError::NotOffered("tx_attr.inject_size"));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    #[doc(alias = "fi_getinfo")]
    pub fn query(&self, hints: &Hints<'_>) -> Result<Info<Soft<'n>>, OpenError> {
        let info = self.granting(hints, Plan::new(0));
        info.satisfies(hints)?;
        Ok(info)
    }
}

// SAFETY: `soft/transport.rs` lists how the promises are kept.
unsafe impl<'n> Fabrics for Soft<'n> {
    type Info = SoftInfo<'n>;
    type Fabric = SoftFabric<'n>;
    type Domain = SoftDomain<'n>;

    fn duplicate(info: &Self::Info) -> Result<Self::Info, Errno> {
        Ok(info.clone())
    }

    fn attributes(info: &Self::Info) -> Attributes {
        let (mut attributes, modes) = (attributes(&info.net.attr), info.rules.plan.required);
        attributes.domain.mr_mode |= modes.mr_mode();
        attributes.endpoint.msg_prefix_size = modes.prefix();
        attributes.mode |= modes.mode();
        attributes.tx.mode |= modes.mode();
        attributes.rx.mode |= modes.mode();
        info.rules.take_from(&mut attributes);
        attributes
    }

    fn name(info: &Self::Info, name: Name) -> Option<&str> {
        Some(match name {
            Name::Provider | Name::Fabric => PROVIDER,
            Name::Domain if info.rules.strict.is_some() => "strict",
            Name::Domain => "memory",
        })
    }

    fn source_address(_: &Self::Info) -> Option<EndpointAddr> {
        None
    }

    fn destination_address(_: &Self::Info) -> Option<EndpointAddr> {
        None
    }

    fn nic(_: &Self::Info) -> Option<Nic<'_>> {
        None
    }

    fn serves_threading(_: &Attributes) -> bool {
        true
    }

    fn quirks(info: &Self::Info) -> ProviderQuirks {
        if info.rules.strict.is_some() { QUIRKS } else { ProviderQuirks::GOOD }
    }

    fn exhausted(refused: Errno) -> Option<&'static str> {
        match refused {
            Errno::EMFILE => Some("NetworkAttr::endpoints"),
            Errno::ENOMR => Some("NetworkAttr::regions"),
            Errno::ENOSPC => Some("NetworkAttr::groups"),
            _ => None,
        }
    }

    unsafe fn fabric_open(info: &Self::Info) -> Result<Self::Fabric, Errno> {
        Ok(SoftFabric { net: info.network() })
    }

    unsafe fn fabric_close(_: &Self::Fabric) -> Result<(), Errno> {
        Ok(())
    }

    unsafe fn domain_open(fabric: &Self::Fabric, info: &Self::Info, _: NonNull<u8>) -> Result<Self::Domain, Errno> {
        let net = fabric.net;
        if !core::ptr::eq(&*net, &*info.net) {
            return Err(Errno::EINVAL);
        }
        let number = net.opening.lock().domain()?;
        Ok(SoftDomain { net, number, modes: info.rules.plan.required })
    }

    unsafe fn domain_close(_: &Self::Domain) -> Result<(), Errno> {
        Ok(())
    }
}

// SAFETY: `soft/transport.rs` lists how the promises are kept.
unsafe impl<'n> AddressVectors for Soft<'n> {
    type Av = SoftAv<'n>;

    unsafe fn av_room(domain: &Self::Domain, _: usize) -> AvRoom {
        AvRoom { places: domain.net.attr.endpoints.into(), ..Default::default() }
    }

    unsafe fn av_open(domain: &Self::Domain, _: usize, rx_ctx_bits: u8) -> Result<Self::Av, Errno> {
        if rx_ctx_bits == 0 { Ok(SoftAv { net: domain.net }) } else { Err(Errno::ENOSYS) }
    }

    unsafe fn av_close(_: &Self::Av) -> Result<(), Errno> {
        Ok(())
    }

    unsafe fn av_insert(av: &Self::Av, address: &EndpointAddr) -> Result<FabricAddr, Errno> {
        parse_address(av.net.identity, av.net.attr.endpoints, address).ok_or(Errno::EINVAL)
    }

    unsafe fn av_insert_service(av: &Self::Av, node: &str, service: Option<&str>) -> Result<FabricAddr, Errno> {
        match service {
            None => parse_text(av.net.identity, av.net.attr.endpoints, node).ok_or(Errno::EINVAL),
            Some(_) => Err(Errno::EINVAL),
        }
    }

    unsafe fn av_remove(_: &Self::Av, _: FabricAddr) -> Result<(), Errno> {
        Ok(())
    }

    unsafe fn av_lookup(av: &Self::Av, peer: FabricAddr) -> Result<EndpointAddr, Errno> {
        write_address(av.net.identity, peer.0)
    }
}
