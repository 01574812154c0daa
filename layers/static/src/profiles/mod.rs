//! Provider profiles: facts about a provider at compile time.
//!
//! A [`Profile`] has **bounds** of a provider's [`Info`]: upper bounds of modes and registration
//! modes, lower bounds of all others.
//!
//! ```
//! use loom_core::{Forever, Tag};
//! use loom_static::profiles::{Profile, Software};
//! # use loom_core::soft::{Network, NetworkAttr};
//! # use loom_core::{Av, Cq, Domain, Source, TagMatch};
//! # let network = Network::new(NetworkAttr::default())?;
//!
//! let info = network.query(&Software::hints())?;
//! Software::check(&info)?;
//! # let domain = Domain::open(&info)?;
//! # let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
//! # let bob = cq.endpoint(&av)?;
//! # let to_bob = av.insert(&bob.address()?)?;
//! # let received = bob.tagged_recv(Source::Any, TagMatch::exact(Tag(7)), vec![0; 5])?;
//! let alice = Software::endpoint(cq.endpoint(&av)?)?;
//! // An array of more than `Software::INJECT_SIZE` bytes does not compile.
//! cq.retry(Forever, || alice.tagged_inject_array(to_bob, Tag(7), b"hello"))?;
//! # assert_eq!(cq.finish(received, Forever)?.into_buf(), b"hello");
//! # Ok::<_, loom_core::Error>(())
//! ```
//!
//! ```compile_fail,E0080
//! # use loom_core::{Peer, soft};
//! # use loom_static::{Profiled, profiles::Software};
//! fn too_long(endpoint: &Profiled<'_, soft::Soft<'_>, Vec<u8>, Software>, peer: Peer) {
//!     let _ = endpoint.inject_array(peer, &[0; 65]);
//! }
//! # fn main() { let _ = too_long as fn(&_, _); }
//! ```
//!
//! # Values
//!
//! The values are the weakest of the sources and manual pages of libfabric 2.1.0, the manual pages
//! of 1.17, and `fi_getinfo` of 1.17.0 and 2.5.1.
//!
//! Environment variables of a provider (`FI_OFI_RXM_BUFFER_SIZE`) can lower its limits.
//!
//! # Profiles of one's own
//!
//! A cluster may promise more, for example `verbs` on cards with room for 60 bytes in a work
//! request:
//!
//! ```
//! use loom_static::profiles::{InjectCapable, Profile, Verbs};
//! use loom_core::vocabulary::{Caps, EndpointType, Mode, MrMode, MsgOrder};
//!
//! struct OurVerbs;
//!
//! impl Profile for OurVerbs {
//!     const NAME: &'static str = Verbs::NAME;
//!     const ENDPOINT: EndpointType = Verbs::ENDPOINT;
//!     const CAPS: Caps = Verbs::CAPS;
//!     const MODE: Mode = Verbs::MODE;
//!     const MR_MODE: MrMode = Verbs::MR_MODE;
//!     const MSG_ORDER: MsgOrder = Verbs::MSG_ORDER;
//!     const CQ_DATA_SIZE: usize = Verbs::CQ_DATA_SIZE;
//!     const INJECT_SIZE: usize = 60;
//! }
//!
//! impl InjectCapable for OurVerbs {}
//! # const _: () = <OurVerbs as InjectCapable>::HOLDS;
//! ```

mod atomics;
mod error;
mod providers;
mod traits;

use loom_core::info::{Hints, Info};
use loom_core::transport::Transport;
use loom_core::vocabulary::{
    Attributes, Caps, DomainAttributes, EndpointAttributes, EndpointType, Mode, MrMode, MsgOrder, Progress,
    TxAttributes,
};

pub use self::atomics::AtomicSet;
pub use self::error::ProfileError;
pub use self::providers::{
    ALL, Cxi, Efa, Lnx, Lpp, Net, Opx, Psm, Psm2, Psm3, Shm, Sm2, Sockets, SocketsMsg, Software, Tcp, TcpRdm, TcpRxm,
    Ucx, Udp, UdpRxd, Usnic, Verbs, VerbsRxm,
};
pub use self::traits::{AutoProgress, InjectCapable, ManualProgress, NativeAtomics, Profile};

/// Constants of a [`Profile`] as a value.
///
/// ```
/// use loom_static::profiles::{ALL, Profile, Promise, Shm};
///
/// const SHM: Promise = Promise::of::<Shm>();
/// assert_eq!(SHM.inject_size, Shm::INJECT_SIZE);
/// assert!(ALL.contains(&SHM));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// [`Profile::NAME`]
    pub name: &'static str,
    /// [`Profile::ENDPOINT`]
    pub endpoint: EndpointType,
    /// [`Profile::CAPS`]
    pub caps: Caps,
    /// [`Profile::MODE`]
    pub mode: Mode,
    /// [`Profile::MR_MODE`]
    pub mr_mode: MrMode,
    /// [`Profile::MSG_ORDER`]
    pub msg_order: MsgOrder,
    /// [`Profile::INJECT_SIZE`]
    pub inject_size: usize,
    /// [`Profile::CQ_DATA_SIZE`]
    pub cq_data_size: usize,
    /// [`Profile::CONTROL_PROGRESS`]
    pub control_progress: Progress,
    /// [`Profile::DATA_PROGRESS`]
    pub data_progress: Progress,
    /// [`Profile::ATOMICS`]
    pub atomics: AtomicSet,
}

impl Promise {
    /// Collects the constants of a profile.
    #[must_use]
    pub const fn of<P: Profile>() -> Self {
        Promise {
            name: P::NAME,
            endpoint: P::ENDPOINT,
            caps: P::CAPS,
            mode: P::MODE,
            mr_mode: P::MR_MODE,
            msg_order: P::MSG_ORDER,
            inject_size: P::INJECT_SIZE,
            cq_data_size: P::CQ_DATA_SIZE,
            control_progress: P::CONTROL_PROGRESS,
            data_progress: P::DATA_PROGRESS,
            atomics: P::ATOMICS,
        }
    }

    /// Hints like those of [`Profile::hints`].
    #[must_use]
    pub fn hints(&self) -> Hints<'static> {
        // Automatic progress also works as manual progress.
        let requested = |progress| if progress == Progress::AUTO { progress } else { Progress::UNSPEC };
        let hints = Hints {
            caps: self.caps,
            mode: self.mode,
            provider: Some(self.name),
            endpoint_attr: EndpointAttributes::of(self.endpoint),
            tx_attr: TxAttributes { inject_size: self.inject_size, ..TxAttributes::default() },
            domain_attr: DomainAttributes {
                // libfabric refuses hints that combine these two with other modes.
                mr_mode: self.mr_mode.difference(MrMode::BASIC.union(MrMode::SCALABLE)),
                cq_data_size: self.cq_data_size,
                control_progress: requested(self.control_progress),
                data_progress: requested(self.data_progress),
                ..DomainAttributes::default()
            },
            ..Hints::default()
        };
        hints.with_msg_order(self.msg_order)
    }

    /// Checks an info, like [`Profile::check`].
    ///
    /// ```
    /// use loom_static::profiles::{ALL, Profile, Software};
    ///
    /// # use loom_core::soft::{Network, NetworkAttr};
    /// # let network = Network::new(NetworkAttr::default())?;
    /// let info = network.query(&Software::hints())?;
    /// // The profiles that this provider keeps.
    /// let kept: Vec<_> = ALL.iter().filter(|promise| promise.check(&info).is_ok()).map(|promise| promise.name).collect();
    /// assert_eq!(kept, ["soft"]);
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// The first difference.
    pub fn check<T: Transport>(&self, info: &Info<T>) -> Result<(), ProfileError> {
        self.check_attributes(info.provider(), info.attributes())
    }

    /// [`check`](Self::check) of the attributes granted by `provider`.
    ///
    /// # Errors
    /// The first difference.
    pub fn check_attributes(&self, provider: &str, granted: &Attributes) -> Result<(), ProfileError> {
        let Attributes { mode, endpoint, tx, rx, domain, .. } = granted;
        if !provider.eq_ignore_ascii_case(self.name) {
            return Err(ProfileError::Provider { asked: self.name });
        }
        if endpoint.kind != self.endpoint {
            return Err(ProfileError::EndpointType { asked: self.endpoint, granted: endpoint.kind });
        }
        let missing = self.caps.with_modifiers().difference(granted.caps.with_modifiers());
        if !missing.is_empty() {
            return Err(ProfileError::Caps { missing });
        }
        let excess = mode.union(tx.mode).union(rx.mode).difference(self.mode);
        if !excess.is_empty() {
            return Err(ProfileError::Mode { excess });
        }
        let excess = domain.mr_mode.difference(self.mr_mode);
        if !excess.is_empty() {
            return Err(ProfileError::MrMode { excess });
        }
        let missing = self.msg_order.difference(tx.msg_order.intersection(rx.msg_order));
        if !missing.is_empty() {
            return Err(ProfileError::MsgOrder { missing });
        }
        let (asked, granted) = (self.inject_size, tx.inject_size);
        if granted < asked {
            return Err(ProfileError::InjectSize { asked, granted });
        }
        let (asked, granted) = (self.cq_data_size, domain.cq_data_size);
        if granted < asked {
            return Err(ProfileError::CqDataSize { asked, granted });
        }
        let short = |asked, granted| asked == Progress::AUTO && granted != Progress::AUTO;
        if short(self.control_progress, domain.control_progress) {
            return Err(ProfileError::ControlProgress {
                asked: self.control_progress,
                granted: domain.control_progress,
            });
        }
        if short(self.data_progress, domain.data_progress) {
            return Err(ProfileError::DataProgress { asked: self.data_progress, granted: domain.data_progress });
        }
        Ok(())
    }
}
