//! [`Stream`]s of queue events. The error of a failed queue is the last item.
//!
//! A dropped stream leaves its items to the next one.

#![allow(unsafe_code, reason = "projects pins")]

use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};

use futures_core::Stream;
use futures_core::stream::FusedStream;
use loom_core::buffer::Buffer;
use loom_core::cq::CqError;
use loom_core::driver::{CqDriver, EqDriver, NextEqEvent, NextEvent, NextUnclaimed};
use loom_core::eq::EqEvent;
use loom_core::transport::Connected;
use loom_core::{Completion, Done, Transport};

struct Repeated<D, N> {
    driver: D,
    next: Option<N>,
    renew: fn(&D) -> N,
    over: bool,
}

impl<D: Clone, N> Repeated<D, N> {
    fn new(driver: &D, renew: fn(&D) -> N) -> Self {
        Repeated { driver: driver.clone(), next: None, renew, over: false }
    }

    fn poll<V, E>(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<V, E>>>
    where
        N: Future<Output = Result<V, E>>,
    {
        // SAFETY: `next` is not moved. Other fields are not pinned.
        let Repeated { driver, next, renew, over } = unsafe { self.get_unchecked_mut() };
        if *over {
            return Poll::Ready(None);
        }
        // SAFETY: a field of a pinned value. Only `set` replaces it, and drops it in place.
        let mut next = unsafe { Pin::new_unchecked(next) };
        if next.is_none() {
            next.set(Some(renew(driver)));
        }
        let Some(waits) = next.as_mut().as_pin_mut() else { return Poll::Pending };
        let Poll::Ready(result) = waits.poll(cx) else { return Poll::Pending };
        // A completed future is not polled again.
        next.set(None);
        *over = result.is_err();
        Poll::Ready(Some(result))
    }
}

/// Events of a queue: [`events`].
///
/// ```
/// use futures_util::{StreamExt, TryStreamExt};
/// use loom_async::{block_on, stream};
/// use loom_core::driver::{CqDriver, Unclaimed};
/// use loom_core::{Access, Completion, ImmediateData, Mr};
/// # use loom_core::{Av, Cq, Domain};
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// # let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
/// # let region = Mr::open(&domain, vec![0; 64], Access::REMOTE_WRITE)?;
///
/// let task = async {
///     for number in [3, 5] {
///         let write = |bytes| alice.write_data(to_bob, &region.remote(), 0, ImmediateData(number), bytes);
///         driver.run(vec![7; 8], write).await?.result()?;
///     }
///     // The adapters of the package `futures` apply.
///     Ok::<_, loom_core::Error>(stream::events(&driver).take(2).try_collect::<Vec<_>>().await?)
/// };
/// assert!(matches!(block_on(&driver, task)?[..], [Completion::Remote(_), Completion::Remote(_)]));
/// # Ok::<_, loom_core::Error>(())
/// ```
#[must_use = "streams do nothing unless they are polled"]
pub struct Events<'m, T: Transport, B: Buffer>(Repeated<CqDriver<'m, T, B>, NextEvent<'m, T, B>>);

/// Given-up operations that have completed: [`unclaimed`].
///
/// ```
/// use futures_util::StreamExt;
/// use loom_async::{block_on, stream};
/// use loom_core::Source;
/// use loom_core::driver::{CqDriver, Unclaimed};
/// # use loom_core::{Av, Cq, Domain};
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// # let _ = (&alice, to_bob);
///
/// let driver = CqDriver::open(&cq, Unclaimed::Keep)?;
/// let task = async {
///     for _ in 0..3 {
///         drop(driver.finish(bob.recv(Source::Any, vec![0; 4096])?).cancel(&bob));
///     }
///     // All buffers come back to the program's pool.
///     let pool = stream::unclaimed(&driver).take(3).filter_map(async |done| Some(done.ok()?.into_buf()));
///     Ok::<_, loom_core::Error>(pool.collect::<Vec<_>>().await)
/// };
/// assert_eq!(block_on(&driver, task)?.len(), 3);
/// # Ok::<_, loom_core::Error>(())
/// ```
#[must_use = "streams do nothing unless they are polled"]
pub struct UnclaimedDone<'m, T: Transport, B: Buffer>(Repeated<CqDriver<'m, T, B>, NextUnclaimed<'m, T, B>>);

/// Stream of [`CqDriver::next_event`]: peers' writes with immediate data, pieces of multi-receives.
///
/// ```
/// use core::pin::pin;
///
/// use futures_util::StreamExt;
/// use loom_async::{block_on, stream};
/// use loom_core::driver::{CqDriver, Unclaimed};
/// use loom_core::{Access, Completion, ImmediateData, Mr};
/// # use loom_core::{Av, Cq, Domain};
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// # let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
/// # let region = Mr::open(&domain, vec![0; 64], Access::REMOTE_WRITE)?;
///
/// let task = async {
///     let write = |bytes| alice.write_data(to_bob, &region.remote(), 0, ImmediateData(7), bytes);
///     driver.run(vec![7; 8], write).await?.result()?;
///     let mut events = pin!(stream::events(&driver));
///     while let Some(event) = events.next().await.transpose()? {
///         if let Completion::Remote(write) = event {
///             return Ok(write.data());
///         }
///     }
///     Ok::<_, loom_core::Error>(None)
/// };
/// assert_eq!(block_on(&driver, task)?, Some(ImmediateData(7)));
/// # Ok::<_, loom_core::Error>(())
/// ```
pub fn events<'m, T: Transport, B: Buffer>(driver: &CqDriver<'m, T, B>) -> Events<'m, T, B> {
    Events(Repeated::new(driver, CqDriver::next_event))
}

/// Stream of completed operations of dropped futures. See [`CqDriver::next_unclaimed`].
///
/// ```
/// use core::pin::pin;
///
/// use futures_util::StreamExt;
/// use loom_async::{block_on, stream};
/// use loom_core::Source;
/// use loom_core::driver::{CqDriver, Unclaimed};
/// # use loom_core::soft::{Network, NetworkAttr};
/// # use loom_core::{Av, Cq, Domain};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 16)?);
/// # let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// # let to_bob = av.insert(&bob.address()?)?;
///
/// let driver = CqDriver::open(&cq, Unclaimed::Keep)?;
/// let task = async {
///     let received = driver.post(vec![0; 5], |room| bob.recv(Source::Any, room)).await?;
///     drop(driver.finish(received));
///     driver.run(b"hello".to_vec(), |bytes| alice.send(to_bob, bytes)).await?.result()?;
///     // The message that no future waited for.
///     let mut left = pin!(stream::unclaimed(&driver));
///     let done = left.next().await.expect("it does not end")?;
///     Ok::<_, loom_core::Error>(done.into_buf())
/// };
/// assert_eq!(block_on(&driver, task)?, b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
pub fn unclaimed<'m, T: Transport, B: Buffer>(driver: &CqDriver<'m, T, B>) -> UnclaimedDone<'m, T, B> {
    UnclaimedDone(Repeated::new(driver, CqDriver::next_unclaimed))
}

/// Events of an event queue: [`connections`].
///
/// ```
/// use futures_util::StreamExt;
/// use loom_async::stream::Connections;
/// use loom_core::EqEvent;
/// use loom_core::eq::ConnectionRequest;
/// use loom_core::transport::Connected;
///
/// /// The next request of a peer; `None` if the event queue has failed.
/// async fn next_request<'m, T: Connected>(connections: Connections<'m, T>) -> Option<ConnectionRequest<'m, T>> {
///     let requests = connections.filter_map(async |event| match event {
///         Ok(EqEvent::Request(request)) => Some(request),
///         _ => None,
///     });
///     core::pin::pin!(requests).next().await
/// }
/// ```
#[must_use = "streams do nothing unless they are polled"]
pub struct Connections<'m, T: Connected>(Repeated<EqDriver<'m, T>, NextEqEvent<'m, T>>);

/// Stream of [`EqDriver::next_event`]: requests of peers, and ends of connections.
///
/// ```
/// use core::pin::pin;
///
/// use futures_util::StreamExt;
/// use loom_async::stream;
/// use loom_core::driver::EqDriver;
/// use loom_core::transport::Connected;
/// use loom_core::{EqEvent, Error};
///
/// /// Rejects each request. The executor drives the event queue.
/// async fn reject_all<T: Connected>(driver: &EqDriver<'_, T>) -> Result<(), Error> {
///     let mut events = pin!(stream::connections(driver));
///     while let Some(event) = events.next().await {
///         if let EqEvent::Request(request) = event? {
///             request.reject(b"closed")?;
///         }
///     }
///     Ok(())
/// }
/// ```
pub fn connections<'m, T: Connected>(driver: &EqDriver<'m, T>) -> Connections<'m, T> {
    Connections(Repeated::new(driver, EqDriver::next_event))
}

impl<'m, T: Connected> Stream for Connections<'m, T> {
    type Item = Result<EqEvent<'m, T>, CqError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // SAFETY: a field of a pinned value.
        unsafe { self.map_unchecked_mut(|stream| &mut stream.0) }.poll(cx)
    }
}

impl<T: Connected> FusedStream for Connections<'_, T> {
    fn is_terminated(&self) -> bool {
        self.0.over
    }
}

impl<T: Connected> fmt::Debug for Connections<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connections").field("over", &self.0.over).finish_non_exhaustive()
    }
}

macro_rules! streams {
    ($($name:ident: $item:ty),*) => {$(
        impl<'m, T: Transport, B: Buffer> Stream for $name<'m, T, B> {
            type Item = Result<$item, CqError>;

            fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
                // SAFETY: a field of a pinned value.
                unsafe { self.map_unchecked_mut(|stream| &mut stream.0) }.poll(cx)
            }
        }

        impl<T: Transport, B: Buffer> FusedStream for $name<'_, T, B> {
            fn is_terminated(&self) -> bool {
                self.0.over
            }
        }

        impl<T: Transport, B: Buffer> fmt::Debug for $name<'_, T, B> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).field("over", &self.0.over).finish_non_exhaustive()
            }
        }
    )*};
}

streams! { Events: Completion<'m, B>, UnclaimedDone: Done<B> }
