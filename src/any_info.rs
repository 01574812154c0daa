//! [`AnyInfo`]: an offer of any transport of this build.

use alloc::vec::Vec;

use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::{Error, Hints, Info, Transport};

/// Offer of one of the transports that this package is built with.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnyInfo {
    /// libfabric's.
    #[cfg(feature = "libfabric")]
    Libfabric(Info<crate::Ofi<crate::Local>>),
    /// TCP in Rust.
    #[cfg(feature = "tcp")]
    Tcp(Info<loom_tcp::Tcp>),
    /// A new software network of default sizes.
    Soft(Info<Soft<'static>>),
}

/// Program over any transport, for [`AnyInfo::run`].
pub trait Program {
    /// Value that the program returns.
    type Output;

    /// Runs the program over the transport of `info`.
    fn run<T: Transport + 'static>(self, info: &Info<T>) -> Self::Output;
}

impl AnyInfo {
    /// Returns the matching offers of all transports, the preferred ones first: libfabric's in its
    /// order, loom-tcp before its providers over sockets, the software transport last.
    ///
    /// ```
    /// use loom_fabric::{AnyInfo, Error, Hints, Info, Program, Transport};
    ///
    /// struct InjectSize;
    ///
    /// impl Program for InjectSize {
    ///     type Output = usize;
    ///
    ///     fn run<T: Transport + 'static>(self, info: &Info<T>) -> Self::Output {
    ///         info.attributes().tx.inject_size
    ///     }
    /// }
    ///
    /// let hints = Hints { provider: Some("soft"), ..Hints::default() };
    /// assert!(AnyInfo::query(&hints)?[0].run(InjectSize) > 0);
    /// # Ok::<_, Error>(())
    /// ```
    ///
    /// # Errors
    /// Without an offer, that of the transport that [`Hints::provider`] names, or the software
    /// transport's.
    #[doc(alias = "fi_getinfo")]
    pub fn query(hints: &Hints<'_>) -> Result<Vec<Self>, Error> {
        let mut offers = Vec::new();
        let names = |name| hints.provider.is_some_and(|provider| provider.eq_ignore_ascii_case(name));
        let is_named = |name| hints.provider.is_none() || names(name);
        let mut refused = None;
        if is_named("soft") {
            match Network::new(NetworkAttr::default())?.query(hints) {
                Ok(info) => offers.push(Self::Soft(info)),
                Err(error) => refused = Some(Error::from(error)),
            }
        }
        #[cfg(feature = "tcp")]
        if is_named("loom-tcp") {
            match loom_tcp::query(hints, loom_tcp::TcpAttr::DEFAULT) {
                Ok(info) => offers.push(Self::Tcp(info)),
                Err(error) => refused = refused.or(Some(error.into())),
            }
        }
        #[cfg(feature = "libfabric")]
        if !names("soft") && !names("loom-tcp") {
            match crate::Ofi::<crate::Local>::query(hints) {
                Ok(infos) => offers.extend(infos.map(Self::Libfabric)),
                Err(error) => refused = refused.or(Some(error.into())),
            }
        }
        offers.sort_by_key(Self::rank);
        if offers.is_empty() {
            return Err(
                refused.unwrap_or(Error::Invalid("the provider is not in this build: features `tcp`, `libfabric`"))
            );
        }
        Ok(offers)
    }

    fn rank(&self) -> u8 {
        match self {
            #[cfg(feature = "libfabric")]
            Self::Libfabric(info) => {
                let is_over_sockets = |name| matches!(name, "tcp" | "net" | "sockets" | "udp");
                if info.provider().split(';').any(is_over_sockets) { 2 } else { 0 }
            }
            #[cfg(feature = "tcp")]
            Self::Tcp(_) => 1,
            Self::Soft(_) => 3,
        }
    }

    /// Runs a program over this offer.
    pub fn run<P: Program>(&self, program: P) -> P::Output {
        match self {
            #[cfg(feature = "libfabric")]
            Self::Libfabric(info) => program.run(info),
            #[cfg(feature = "tcp")]
            Self::Tcp(info) => program.run(info),
            Self::Soft(info) => program.run(info),
        }
    }
}
