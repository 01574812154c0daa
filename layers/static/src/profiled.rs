use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;

use loom_core::buffer::Buffer;
use loom_core::endpoint::{Connectionless, Endpoint, Transmits};
use loom_core::error::PostError;
use loom_core::immediate::Layout;
use loom_core::transport::Transport;
use loom_core::vocabulary::{ImmediateData, Tag};
use loom_core::{Error, RangeError};

use crate::profiles::{Profile, ProfileError, Promise};

/// Endpoint that meets the [profile](crate::profiles) `P` ([`Profile::endpoint`]).
///
/// It has the [`Endpoint`]'s methods, and checks lengths at compile time.
///
/// ```
/// use loom_static::profiles::{Profile, Software};
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::{Av, Cq, Domain, Forever, Hints, Source};
///
/// /// The most bytes that every provider of this profile injects.
/// const LEN: usize = Software::INJECT_SIZE;
///
/// let network = Network::new(NetworkAttr::default())?;
/// let domain = Domain::open(&network.query(&Software::hints())?)?;
/// let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// let alice = Software::endpoint(cq.endpoint(&av)?)?;
/// let bob = cq.endpoint(&av)?;
/// let to_bob = av.insert(&bob.address()?)?;
/// let received = bob.recv(Source::Any, vec![0; LEN])?;
/// // The compiler has checked the length.
/// cq.retry(Forever, || alice.inject_array(to_bob, &[7; LEN]))?;
/// assert_eq!(cq.finish(received, Forever)?.into_buf(), [7; LEN]);
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct Profiled<'m, T: Transport, B: Buffer, P, K = Connectionless<'m, T>> {
    endpoint: Endpoint<'m, T, B, K>,
    profile: PhantomData<fn() -> P>,
}

impl<'m, T: Transport, B: Buffer, P: Profile, K> Profiled<'m, T, B, P, K> {
    /// Guarantees of the profile.
    pub const PROMISE: Promise = Promise::of::<P>();

    #[expect(clippy::result_large_err, reason = "there is no allocator to box the endpoint with")]
    pub(crate) fn new(endpoint: Endpoint<'m, T, B, K>) -> Result<Self, Unmet<Endpoint<'m, T, B, K>>> {
        match check(&endpoint, &Self::PROMISE) {
            Ok(()) => Ok(Profiled { endpoint, profile: PhantomData }),
            Err(error) => Err(Unmet { endpoint, error }),
        }
    }

    /// Returns the endpoint without the profile.
    #[must_use]
    pub fn into_inner(self) -> Endpoint<'m, T, B, K> {
        self.endpoint
    }

    /// Encodes values as immediate data. A layout wider than the profile's
    /// [`CQ_DATA_SIZE`](Profile::CQ_DATA_SIZE) does not compile.
    ///
    /// ```
    /// use loom_static::profiles::{Profile, Software};
    /// use loom_core::soft::{Network, NetworkAttr};
    /// use loom_core::{Av, Cq, Domain, Forever, Hints, Source, data_layout};
    ///
    /// data_layout! {
    ///     #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    ///     struct Part {
    ///         transfer: u32 = 20,
    ///         index: u16 = 12,
    ///     }
    /// }
    ///
    /// # let network = Network::new(NetworkAttr::default())?;
    /// # let domain = Domain::open(&network.query(&Software::hints())?)?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
    /// # let bob = cq.endpoint(&av)?;
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// let alice = Software::endpoint(cq.endpoint(&av)?)?;
    /// let received = bob.recv(Source::Any, vec![0; 5])?;
    /// let data = alice.encode(Part { transfer: 7, index: 1 })?;
    /// cq.post(b"hello".to_vec(), Forever, |message| alice.send_data(to_bob, data, message))?;
    /// assert_eq!(cq.finish(received, Forever)?.result()?.data, Some(data));
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`RangeError::ValueTooLarge`]
    #[inline]
    pub fn encode<L: Layout>(&self, values: L) -> Result<ImmediateData, RangeError> {
        const {
            assert!(
                L::BYTES <= P::CQ_DATA_SIZE,
                "the layout is wider than the immediate data of the profile's provider"
            );
        }
        values.encode()
    }
}

impl<T: Transport, B: Buffer, P: Profile, K: Transmits<T>> Profiled<'_, T, B, P, K> {
    /// [`inject`](Endpoint::inject) of an array. One longer than the profile's
    /// [`INJECT_SIZE`](Profile::INJECT_SIZE) does not compile.
    ///
    /// # Errors
    /// See [`inject`](Endpoint::inject), except [`PostError::TooLong`].
    #[inline]
    pub fn inject_array<const N: usize>(&self, to: impl Into<K::To>, bytes: &[u8; N]) -> Result<(), PostError> {
        const { assert!(N <= P::INJECT_SIZE, "the array is longer than what the profile's provider injects") };
        self.endpoint.inject(to, bytes)
    }

    /// [`inject_array`](Self::inject_array) for [`tagged_inject`](Endpoint::tagged_inject).
    ///
    /// # Errors
    /// See [`tagged_inject`](Endpoint::tagged_inject), except [`PostError::TooLong`].
    #[inline]
    pub fn tagged_inject_array<const N: usize>(
        &self,
        to: impl Into<K::To>,
        tag: Tag,
        bytes: &[u8; N],
    ) -> Result<(), PostError> {
        const { assert!(N <= P::INJECT_SIZE, "the array is longer than what the profile's provider injects") };
        self.endpoint.tagged_inject(to, tag, bytes)
    }
}

impl<'m, T: Transport, B: Buffer, P, K> Deref for Profiled<'m, T, B, P, K> {
    type Target = Endpoint<'m, T, B, K>;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &self.endpoint
    }
}

impl<T: Transport, B: Buffer, P, K: Clone> Clone for Profiled<'_, T, B, P, K> {
    fn clone(&self) -> Self {
        Profiled { endpoint: self.endpoint.clone(), profile: PhantomData }
    }
}

impl<T: Transport, B: Buffer, P: Profile, K> fmt::Debug for Profiled<'_, T, B, P, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profiled").field("profile", &P::NAME).field("endpoint", &self.endpoint).finish()
    }
}

/// Unchanged endpoint that does not meet a profile.
///
/// ```
/// use loom_static::Unmet;
/// use loom_static::profiles::{Profile, ProfileError, Shm};
/// use loom_core::{Av, Cq, Domain};
///
/// # fixture::queue!(network, domain, av, cq);
/// let endpoint = cq.endpoint(&av)?;
/// let address = endpoint.address()?;
/// match Shm::endpoint(endpoint) {
///     Err(Unmet { endpoint, error }) => {
///         assert_eq!(error, ProfileError::Provider { asked: "shm" });
///         assert_eq!(endpoint.address()?, address, "the endpoint comes back");
///     }
///     Ok(_) => panic!("the provider is another"),
/// }
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct Unmet<E> {
    /// Endpoint.
    pub endpoint: E,
    /// First difference.
    pub error: ProfileError,
}

impl<E> fmt::Debug for Unmet<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unmet").field("error", &self.error).finish_non_exhaustive()
    }
}

/// Drops the endpoint.
impl<E> From<Unmet<E>> for Error {
    fn from(unmet: Unmet<E>) -> Self {
        unmet.error.into()
    }
}

/// The endpoint closes unless it has other handles.
impl<E> From<Unmet<E>> for ProfileError {
    fn from(unmet: Unmet<E>) -> Self {
        unmet.error
    }
}

fn check<T: Transport, B: Buffer, K>(endpoint: &Endpoint<'_, T, B, K>, promise: &Promise) -> Result<(), ProfileError> {
    promise.check_attributes(endpoint.cq().info().provider(), &endpoint.attributes())?;
    match promise.atomics.iter().find(|atomic| endpoint.atomic_count(*atomic).is_err()) {
        None => Ok(()),
        Some(missing) => Err(ProfileError::Atomic { missing }),
    }
}
