use loom_core::buffer::Buffer;
use loom_core::endpoint::Endpoint;
use loom_core::info::{Hints, Info};
use loom_core::transport::Transport;
use loom_core::vocabulary::{Caps, EndpointType, Mode, MrMode, MsgOrder, Progress};

use super::{AtomicSet, ProfileError, Promise};
use crate::profiled::{Profiled, Unmet};

/// Promises of a provider about one kind of its endpoints, empty by default. The [module](super)
/// names their sources.
///
/// ```
/// use loom_static::profiles::{Opx, Profile, Shm};
///
/// /// How a program sends a message, which it decides before a provider is opened.
/// const fn injects<P: Profile>(len: usize) -> bool {
///     len <= P::INJECT_SIZE
/// }
///
/// const HEADER: usize = 40;
/// const { assert!(injects::<Shm>(HEADER)) };
/// assert!(!injects::<Opx>(HEADER), "its header goes out from a buffer");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no profile of a provider",
    note = "`loom_static::profiles` has one for each provider of libfabric; implement `Profile` for one of your own"
)]
pub trait Profile: Sized {
    /// Provider name of `fi_getinfo`, for example `tcp;ofi_rxm`.
    #[doc(alias = "prov_name")]
    const NAME: &'static str;
    /// Endpoint type.
    const ENDPOINT: EndpointType;
    /// Capabilities granted on request, all together.
    const CAPS: Caps;
    /// Maximum modes that the provider requires.
    const MODE: Mode = Mode::empty();
    /// Maximum registration modes that the provider requires.
    const MR_MODE: MrMode = MrMode::empty();
    /// Orders that both sides grant on request, together with [`CAPS`](Self::CAPS).
    const MSG_ORDER: MsgOrder = MsgOrder::NONE;
    /// Minimum inject size in bytes.
    const INJECT_SIZE: usize = 0;
    /// Minimum width of immediate data in bytes.
    const CQ_DATA_SIZE: usize = 0;
    /// [`AUTO`](Progress::AUTO) if connections and address vectors need no calls.
    const CONTROL_PROGRESS: Progress = Progress::MANUAL;
    /// [`AUTO`](Progress::AUTO) if transfers need no calls.
    const DATA_PROGRESS: Progress = Progress::MANUAL;
    /// Atomic operations on at least one element, if [`ATOMIC`](Caps::ATOMIC) is requested.
    const ATOMICS: AtomicSet = AtomicSet::NONE;

    /// Hints for the provider by name, and all guarantees. The caller must support the modes and
    /// registration modes.
    ///
    /// ```
    /// use loom_core::{Caps, Hints};
    /// use loom_static::profiles::{Profile, TcpRxm};
    ///
    /// let hints = Hints { service: Some("7471"), ..TcpRxm::hints() };
    /// assert_eq!(hints.provider, Some("tcp;ofi_rxm"));
    /// assert!(hints.caps.contains(Caps::TAGGED | Caps::ATOMIC));
    /// ```
    #[must_use]
    fn hints() -> Hints<'static> {
        Promise::of::<Self>().hints()
    }

    /// Checks that an info meets the profile, except for atomic operations
    /// ([`endpoint`](Self::endpoint)).
    ///
    /// ```
    /// use loom_core::soft::{Network, NetworkAttr};
    /// use loom_static::profiles::{Profile, ProfileError, Shm, Software};
    ///
    /// let network = Network::new(NetworkAttr::default())?;
    /// let info = network.query(&Software::hints())?;
    /// assert_eq!(Software::check(&info), Ok(()));
    /// assert_eq!(Shm::check(&info), Err(ProfileError::Provider { asked: "shm" }));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// The first difference.
    fn check<T: Transport>(info: &Info<T>) -> Result<(), ProfileError> {
        Promise::of::<Self>().check(info)
    }

    /// Checks the attributes of an endpoint, and the domain's atomic operations.
    ///
    /// # Errors
    /// The first difference, with the endpoint.
    #[expect(clippy::result_large_err, clippy::type_complexity, reason = "a refused endpoint is returned, unboxed")]
    fn endpoint<'m, T: Transport, B: Buffer, K>(
        endpoint: Endpoint<'m, T, B, K>,
    ) -> Result<Profiled<'m, T, B, Self, K>, Unmet<Endpoint<'m, T, B, K>>> {
        Profiled::new(endpoint)
    }
}

/// Profiles of providers with atomic operations of their own.
///
/// ```
/// use loom_core::atomic::{FetchOp, Operation};
/// use loom_static::profiles::{NativeAtomics, Shm};
///
/// /// Whether the provider promises fetch-and-add.
/// fn tickets<P: NativeAtomics>() -> bool {
///     let add = FetchOp::<u64>::SUM.atomic();
///     P::ATOMICS.iter().any(|promised| promised == add)
/// }
///
/// assert!(tickets::<Shm>());
/// ```
#[diagnostic::on_unimplemented(
    message = "the provider of `{Self}` promises no atomic operations",
    note = "ask the domain for those that it has (`Domain::query_atomic`), or use a profile that promises them in `ATOMICS`"
)]
pub trait NativeAtomics: Profile {
    /// Compile-time check: `const _: () = <MyProfile as NativeAtomics>::HOLDS;`
    const HOLDS: () = assert!(
        !Self::ATOMICS.is_empty() && Self::CAPS.contains(Caps::ATOMIC),
        "a profile with `NativeAtomics` has operations in `ATOMICS`, and `ATOMIC` in `CAPS`"
    );
}

/// Profiles of providers that can inject at least one byte.
///
/// ```
/// use loom_static::Profiled;
/// use loom_static::profiles::InjectCapable;
/// use loom_core::{Error, Peer, Transport};
///
/// /// Sends two bytes. The compiler checks that the provider injects as many.
/// fn notice<T: Transport, P: InjectCapable>(
///     endpoint: &Profiled<'_, T, Vec<u8>, P>,
///     to: Peer,
///     notice: u16,
/// ) -> Result<(), Error> {
///     Ok(endpoint.inject_array(to, &notice.to_le_bytes())?)
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "the provider of `{Self}` does not promise that anything can be injected",
    note = "the endpoint says what it injects (`Endpoint::inject_size`), or use a profile with an `INJECT_SIZE`"
)]
pub trait InjectCapable: Profile {
    /// Compile-time check: `const _: () = <MyProfile as InjectCapable>::HOLDS;`
    const HOLDS: () =
        assert!(Self::INJECT_SIZE > 0, "a profile with `InjectCapable` has an `INJECT_SIZE` that is not zero");
}

/// Profiles of providers that drive connections and transfers by themselves.
///
/// ```
/// use core::sync::atomic::{AtomicBool, Ordering};
///
/// use loom_static::profiles::{AutoProgress, Udp};
///
/// /// Waits for a flag that another thread sets, and polls no queue meanwhile. Transfers go on without it.
/// fn wait_for<P: AutoProgress>(flag: &AtomicBool) {
///     while !flag.load(Ordering::Acquire) {
///         core::hint::spin_loop();
///     }
/// }
///
/// let flag = AtomicBool::new(true);
/// wait_for::<Udp>(&flag);
/// // Does not compile, as its transfers would stand still: `wait_for::<Tcp>(&flag)`
/// ```
#[diagnostic::on_unimplemented(
    message = "the provider of `{Self}` does not promise to make progress by itself",
    note = "poll the queue (`Cq::poll`, `Cq::wait`), which drives every provider"
)]
pub trait AutoProgress: Profile {
    /// Compile-time check: `const _: () = <MyProfile as AutoProgress>::HOLDS;`
    const HOLDS: () = assert!(
        is_auto(Self::CONTROL_PROGRESS) && is_auto(Self::DATA_PROGRESS),
        "a profile with `AutoProgress` has `AUTO` for control and data"
    );
}

/// Profiles of providers with transfers that the caller may have to drive.
#[diagnostic::on_unimplemented(
    message = "the provider of `{Self}` makes progress by itself",
    note = "code that drives a provider needs no such bound: polling is harmless everywhere"
)]
pub trait ManualProgress: Profile {
    /// Compile-time check: `const _: () = <MyProfile as ManualProgress>::HOLDS;`
    const HOLDS: () = assert!(!is_auto(Self::DATA_PROGRESS), "a profile with `ManualProgress` has no `AUTO` for data");
}

const fn is_auto(progress: Progress) -> bool {
    progress.as_raw() == Progress::AUTO.as_raw()
}
