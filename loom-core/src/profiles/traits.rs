//! [`Profile`], and what code can ask of one at compile time.

use super::AtomicSet;
use crate::vocabulary::{Caps, EndpointType, Mode, MrMode, MsgOrder, Progress};

/// What a provider promises about one kind of its endpoints.
///
/// A profile is a type without values of interest: its constants are what counts. Those with a default promise nothing by it. The
/// [module](super) says where loom's own come from, and how to write another.
///
/// ```
/// use loom_core::profiles::{Opx, Profile, Shm};
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
    note = "`loom_core::profiles` has one for each provider of libfabric; implement `Profile` for one of your own"
)]
pub trait Profile {
    /// The provider's name, as `fi_getinfo` gives it: `tcp;ofi_rxm`.
    #[doc(alias = "prov_name")]
    const NAME: &'static str;
    /// The kind of endpoint.
    const ENDPOINT: EndpointType;
    /// Capabilities that are granted to those who ask for them, all at once.
    const CAPS: Caps;
    /// Modes that the provider asks for at most.
    const MODE: Mode = Mode::empty();
    /// Registration modes that the provider asks for at most.
    const MR_MODE: MrMode = MrMode::empty();
    /// Orders that are granted on both sides to those who ask for them, together with [`CAPS`](Self::CAPS).
    const MSG_ORDER: MsgOrder = MsgOrder::NONE;
    /// Bytes that can be injected at least.
    const INJECT_SIZE: usize = 0;
    /// Bytes of immediate data that are carried at least.
    const CQ_DATA_SIZE: usize = 0;
    /// [`AUTO`](Progress::AUTO) if connections and address vectors need no calls of the caller; else the caller drives them.
    const CONTROL_PROGRESS: Progress = Progress::MANUAL;
    /// [`AUTO`](Progress::AUTO) if transfers need no calls of the caller; else the caller drives them.
    const DATA_PROGRESS: Progress = Progress::MANUAL;
    /// Atomic operations that domains have, one element at least, when [`ATOMIC`](Caps::ATOMIC) is asked for.
    const ATOMICS: AtomicSet = AtomicSet::NONE;
}

/// Profiles of providers that have atomic operations of their own: in hardware, or by software of the provider's.
///
/// Where there are none, a program reads, computes and writes by itself, which is not atomic, and says so.
///
/// ```
/// use loom_core::atomic::{FetchOp, Operation};
/// use loom_core::profiles::{NativeAtomics, Shm};
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
    /// Fails to compile if the profile's constants say otherwise: for `const _: () = <MyProfile as NativeAtomics>::HOLDS;`.
    const HOLDS: () = assert!(
        !Self::ATOMICS.is_empty() && Self::CAPS.contains(Caps::ATOMIC),
        "a profile with `NativeAtomics` has operations in `ATOMICS`, and `ATOMIC` in `CAPS`"
    );
}

/// Profiles of providers that can inject at least some bytes.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::endpoint::Profiled;
/// use loom_core::profiles::InjectCapable;
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
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "the provider of `{Self}` does not promise that anything can be injected",
    note = "the endpoint says what it injects (`Endpoint::inject_size`), or use a profile with an `INJECT_SIZE`"
)]
pub trait InjectCapable: Profile {
    /// Fails to compile if the profile's constants say otherwise: for `const _: () = <MyProfile as InjectCapable>::HOLDS;`.
    const HOLDS: () =
        assert!(Self::INJECT_SIZE > 0, "a profile with `InjectCapable` has an `INJECT_SIZE` that is not zero");
}

/// Profiles of providers that make progress by themselves, with connections and with transfers.
///
/// ```
/// use core::sync::atomic::{AtomicBool, Ordering};
///
/// use loom_core::profiles::{AutoProgress, Udp};
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
    /// Fails to compile if the profile's constants say otherwise: for `const _: () = <MyProfile as AutoProgress>::HOLDS;`.
    const HOLDS: () = assert!(
        is_auto(Self::CONTROL_PROGRESS) && is_auto(Self::DATA_PROGRESS),
        "a profile with `AutoProgress` has `AUTO` for control and data"
    );
}

/// Profiles of providers whose transfers the caller may have to drive, by polling queues or reading counters.
#[diagnostic::on_unimplemented(
    message = "the provider of `{Self}` makes progress by itself",
    note = "code that drives a provider needs no such bound: polling is harmless everywhere"
)]
pub trait ManualProgress: Profile {
    /// Fails to compile if the profile's constants say otherwise: for `const _: () = <MyProfile as ManualProgress>::HOLDS;`.
    const HOLDS: () = assert!(!is_auto(Self::DATA_PROGRESS), "a profile with `ManualProgress` has no `AUTO` for data");
}

const fn is_auto(progress: Progress) -> bool {
    progress.as_raw() == Progress::AUTO.as_raw()
}
