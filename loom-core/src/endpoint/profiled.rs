//! [`Profiled`], an endpoint with a profile's guarantees in its type, and [`Unmet`], an endpoint
//! that does not meet one.

#![allow(unsafe_code, reason = "asks the raw domain")]

use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;

use super::kind::{Has, Transmits};
use super::{Connectionless, Endpoint};
use crate::buffer::Buffer;
use crate::error::PostError;
use crate::immediate::{Layout, LayoutError};
use crate::profiles::{Profile, ProfileError, Promise};
use crate::query::{Injects, Messages, Tagged};
use crate::transport::Transport;
use crate::vocabulary::{Attributes, ImmediateData, Tag};

/// An endpoint that meets the [profile](crate::profiles) `P` ([`Endpoint::with_profile`]).
///
/// It has the size and methods of the [`Endpoint`], and checks lengths at compile time.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::profiles::{Profile, Software};
/// use loom_core::soft::{Network, NetworkAttr};
/// use loom_core::{Av, Cq, Domain, Forever, Hints, Source};
///
/// /// The most bytes that every provider of this profile injects.
/// const LEN: usize = Software::INJECT_SIZE;
///
/// let network = Network::new(NetworkAttr::default())?;
/// let domain = Domain::open(&network.query(&Hints::of_profile::<Software>())?)?;
/// let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// let alice = cq.endpoint(&av)?.with_profile::<Software>()?;
/// let bob = cq.endpoint(&av)?;
/// let to_bob = av.insert(&bob.address()?)?;
/// let received = bob.recv(Source::Any, vec![0; LEN])?;
/// // The compiler has checked the length.
/// cq.retry(Forever, || alice.inject_array(to_bob, &[7; LEN]))?;
/// assert_eq!(cq.finish(received, Forever)?.into_buf(), [7; LEN]);
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct Profiled<'m, T: Transport, B: Buffer, P, K = Connectionless<'m, T>> {
    endpoint: Endpoint<'m, T, B, K>,
    profile: PhantomData<fn() -> P>,
}

impl<'m, T: Transport, B: Buffer, K> Endpoint<'m, T, B, K> {
    /// Checks the endpoint's info, and the domain's atomic operations, against a profile.
    ///
    /// # Errors
    /// The first difference, with the endpoint.
    #[expect(clippy::result_large_err, reason = "there is no allocator to box the endpoint with")]
    pub fn with_profile<P: Profile>(self) -> Result<Profiled<'m, T, B, P, K>, Unmet<Self>> {
        match self.check(&Promise::of::<P>()) {
            Ok(()) => Ok(Profiled { endpoint: self, profile: PhantomData }),
            Err(error) => Err(Unmet { endpoint: self, error }),
        }
    }

    fn check(&self, promise: &Promise) -> Result<(), ProfileError> {
        let domain = self.cq().domain();
        // The endpoint's own info may differ from the domain's.
        let offered = self.opened.endpoint_slot().offered().get();
        let mut granted: Attributes = *domain.attributes();
        granted.endpoint.kind = offered.kind;
        granted.caps = self.limits().caps();
        (granted.tx.msg_order, granted.rx.msg_order) = (offered.msg_order, offered.msg_order);
        granted.tx.inject_size = self.limits().inject_size;
        granted.domain.cq_data_size = self.limits().cq_data_size();
        promise.check(domain.info().provider(), &granted)?;
        for missing in promise.atomics.iter() {
            // SAFETY: the queue's handle keeps the domain open (C1).
            let attr = unsafe { T::query_atomic(domain.raw(), missing) };
            if !attr.is_ok_and(|attr| attr.count > 0 && Some(attr.size) == missing.datatype.size()) {
                return Err(ProfileError::Atomic { missing });
            }
        }
        Ok(())
    }
}

impl<'m, T: Transport, B: Buffer, P: Profile, K> Profiled<'m, T, B, P, K> {
    /// Guarantees of the profile, as a value.
    pub const PROMISE: Promise = Promise::of::<P>();

    /// Returns the endpoint without the profile.
    #[must_use]
    pub fn into_inner(self) -> Endpoint<'m, T, B, K> {
        self.endpoint
    }

    /// Encodes values as immediate data. A layout wider than the profile's
    /// [`CQ_DATA_SIZE`](Profile::CQ_DATA_SIZE) does not compile.
    ///
    /// ```
    /// # #[cfg(feature = "std")] {
    /// use loom_core::profiles::Software;
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
    /// # let domain = Domain::open(&network.query(&Hints::of_profile::<Software>())?)?;
    /// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
    /// # let bob = cq.endpoint(&av)?;
    /// # let to_bob = av.insert(&bob.address()?)?;
    /// let alice = cq.endpoint(&av)?.with_profile::<Software>()?;
    /// let received = bob.recv(Source::Any, vec![0; 5])?;
    /// let data = alice.encode(Part { transfer: 7, index: 1 })?;
    /// cq.post(b"hello".to_vec(), Forever, |message| alice.send_data(to_bob, data, message))?;
    /// assert_eq!(cq.finish(received, Forever)?.result()?.data(), Some(data));
    /// # }
    /// # Ok::<_, loom_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::ValueTooLarge`]
    #[inline]
    pub fn encode<L: Layout>(&self, values: L) -> Result<ImmediateData, LayoutError> {
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
    /// Those of [`inject`](Endpoint::inject), except [`PostError::TooLong`].
    #[inline]
    pub fn inject_array<const N: usize>(&self, to: impl Into<K::To>, bytes: &[u8; N]) -> Result<(), PostError>
    where
        K: Has<Messages> + Has<Injects>,
    {
        const { assert!(N <= P::INJECT_SIZE, "the array is longer than what the profile's provider injects") };
        self.endpoint.inject(to, bytes)
    }

    /// [`inject_array`](Self::inject_array) for [`tagged_inject`](Endpoint::tagged_inject).
    ///
    /// # Errors
    /// Those of [`tagged_inject`](Endpoint::tagged_inject), except [`PostError::TooLong`].
    #[inline]
    pub fn tagged_inject_array<const N: usize>(
        &self,
        to: impl Into<K::To>,
        tag: Tag,
        bytes: &[u8; N],
    ) -> Result<(), PostError>
    where
        K: Has<Tagged> + Has<Injects>,
    {
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

/// An unchanged endpoint that does not meet a profile, with the reason.
///
/// ```
/// # #[cfg(feature = "std")] {
/// use loom_core::endpoint::Unmet;
/// use loom_core::profiles::{ProfileError, Shm};
/// use loom_core::{Av, Cq, Domain};
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::<_, Vec<u8>>::open(&domain, 16)?);
/// let endpoint = cq.endpoint(&av)?;
/// let address = endpoint.address()?;
/// match endpoint.with_profile::<Shm>() {
///     Err(Unmet { endpoint, error }) => {
///         assert_eq!(error, ProfileError::Provider { asked: "shm" });
///         assert_eq!(endpoint.address()?, address, "the endpoint comes back");
///     }
///     Ok(_) => panic!("the provider is another"),
/// }
/// # }
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct Unmet<E> {
    /// The endpoint.
    pub endpoint: E,
    /// The first difference.
    pub error: ProfileError,
}

impl<E> fmt::Debug for Unmet<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unmet").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<E> fmt::Display for Unmet<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<E> core::error::Error for Unmet<E> {}

/// The difference alone, for `?`. The endpoint closes unless it has other handles.
impl<E> From<Unmet<E>> for ProfileError {
    fn from(unmet: Unmet<E>) -> Self {
        unmet.error
    }
}
