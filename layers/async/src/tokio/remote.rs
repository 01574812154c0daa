use core::fmt;

use ::tokio::sync::{Semaphore, mpsc, oneshot};

/// Creates a channel of up to `capacity` requests to the thread of a fabric, from 1 to the permits
/// of a tokio semaphore.
///
/// The thread takes [`Requests`] and answers at any time. Without room, callers wait in order.
///
/// ```
/// use loom_async::tokio::{Mode, remote, run};
/// # use loom_core::driver::{CqDriver, Unclaimed};
/// # use loom_core::{Av, Cq, CqAttr, Domain, Source, WaitObj};
/// use loom_core::Error;
///
/// let (remote, mut requests) = remote::<Vec<u8>, usize>(8);
/// let fabric = std::thread::spawn(move || {
///     // The objects of the fabric are opened here, and stay on this thread.
/// #     let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
/// #     fixture::domain!(network, domain);
/// #     let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, CqAttr { wait: WaitObj::FD, ..CqAttr::new(16) })?);
/// #     let [alice, bob] = [cq.endpoint(&av)?, cq.endpoint(&av)?];
/// #     let to_bob = av.insert(&bob.address()?)?;
/// #     let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
/// #     bob.recv(Source::Any, vec![0; 5])?;
///     runtime.block_on(run(&driver, Mode::Sleep, async {
///         while let Some(mut request) = requests.next().await {
///             let message = std::mem::take(request.body());
///             let sent = driver.run(message, |message| alice.send(to_bob, message)).await?;
///             request.answer(sent.result()?.len);
///         }
///         Ok::<_, Error>(())
///     }))?
/// });
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
/// assert_eq!(runtime.block_on(remote.call(b"hello".to_vec())), Some(5));
/// # drop(remote);
/// # fabric.join().expect("no panic")?;
/// # Ok::<_, Error>(())
/// ```
#[must_use]
pub fn remote<Q, A>(capacity: usize) -> (Remote<Q, A>, Requests<Q, A>) {
    let (sender, receiver) = mpsc::channel(capacity.clamp(1, Semaphore::MAX_PERMITS));
    (Remote { requests: sender }, Requests { requests: receiver })
}

/// Sends requests to the thread of a fabric. `Send` if requests and answers are.
///
/// ```
/// use loom_async::tokio::remote;
///
/// let (remote, mut requests) = remote::<u32, u32>(4);
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// let serve = async {
///     while let Some(mut request) = requests.next().await {
///         let square = request.body().pow(2);
///         request.answer(square);
///     }
/// };
/// // The end of this block drops the last handle, which ends `serve`.
/// let call = async move { (remote.clone().call(3).await, remote.call(4).await) };
/// assert_eq!(runtime.block_on(async { tokio::join!(call, serve).0 }), (Some(9), Some(16)));
/// # Ok::<_, std::io::Error>(())
/// ```
pub struct Remote<Q, A> {
    requests: mpsc::Sender<Request<Q, A>>,
}

impl<Q, A> Remote<Q, A> {
    /// Sends a request and waits for the answer. After a drop of the future, the request may still
    /// be served. Returns `None` if the thread takes no more requests, or has dropped this one.
    ///
    /// ```
    /// use loom_async::tokio::remote;
    ///
    /// let (ask, requests) = remote::<Vec<u8>, usize>(4);
    /// // The thread of the fabric has ended.
    /// drop(requests);
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// assert_eq!(runtime.block_on(ask.call(b"hello".to_vec())), None);
    /// # Ok::<_, std::io::Error>(())
    /// ```
    pub async fn call(&self, body: Q) -> Option<A> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(Request { body, reply }).await.ok()?;
        answer.await.ok()
    }
}

/// Requests to the thread of a fabric.
///
/// ```
/// use loom_async::tokio::remote;
///
/// let (ask, mut requests) = remote::<u32, u32>(4);
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// let (answer, served) = runtime.block_on(async {
///     let serves_one = async {
///         let served = requests.next().await.map(|request| request.answer(7));
///         // Those that come later get no answer, and do not wait.
///         drop(requests);
///         served
///     };
///     tokio::join!(ask.call(1), serves_one)
/// });
/// assert_eq!((answer, served), (Some(7), Some(())));
/// assert_eq!(runtime.block_on(ask.call(2)), None);
/// # Ok::<_, std::io::Error>(())
/// ```
pub struct Requests<Q, A> {
    requests: mpsc::Receiver<Request<Q, A>>,
}

impl<Q, A> Requests<Q, A> {
    /// Next request, until the last [`Remote`] is gone.
    pub async fn next(&mut self) -> Option<Request<Q, A>> {
        self.requests.recv().await
    }
}

/// Request that waits for its answer.
///
/// ```
/// use std::time::Duration;
///
/// use loom_async::tokio::remote;
///
/// let (ask, mut requests) = remote::<u32, u32>(4);
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let given_up = runtime.block_on(async {
///     let asked = tokio::time::timeout(Duration::from_millis(2), ask.call(3)).await;
///     assert!(asked.is_err(), "the answer took too long");
///     // The request is there all the same. The task that asks has given up, so the work can be left out.
///     requests.next().await.map(|request| request.is_given_up())
/// });
/// assert_eq!(given_up, Some(true));
/// # Ok::<_, std::io::Error>(())
/// ```
#[must_use = "the task that asked waits for the answer"]
pub struct Request<Q, A> {
    body: Q,
    reply: oneshot::Sender<A>,
}

impl<Q, A> Request<Q, A> {
    /// Body of the request.
    pub const fn body(&mut self) -> &mut Q {
        &mut self.body
    }

    /// Returns `true` if the task has given up.
    #[must_use]
    pub fn is_given_up(&self) -> bool {
        self.reply.is_closed()
    }

    /// Sends the answer, or drops it if the task has given up.
    pub fn answer(self, answer: A) {
        drop(self.reply.send(answer));
    }
}

impl<Q, A> Clone for Remote<Q, A> {
    fn clone(&self) -> Self {
        Remote { requests: self.requests.clone() }
    }
}

impl<Q, A> fmt::Debug for Remote<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("capacity", &self.requests.capacity()).finish()
    }
}

impl<Q, A> fmt::Debug for Requests<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests").field("len", &self.requests.len()).finish()
    }
}

impl<Q, A> fmt::Debug for Request<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("is_given_up", &self.is_given_up()).finish_non_exhaustive()
    }
}
