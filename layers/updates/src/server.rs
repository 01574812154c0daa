use core::fmt;
use core::mem;

use allocator_api2::alloc::Allocator;
use loom_core::buffer::{SourceBuffer, TargetBuffer};
use loom_core::cq::CqError;
use loom_core::deadline::Spins;
use loom_core::error::OpenError;
use loom_core::exposed::Window;
use loom_core::storage::Array;
use loom_static::protocol::{Completes, MsgRecv, MsgSend, Outcome, PostFailure};

use crate::wire::{Answer, MESSAGE_LEN, Request};
use crate::{UpdateError, message_of};

enum Place<P: MsgSend> {
    Receiving(P::Key),
    Answering(P::Key),
    /// Ready to be sent to a client or, without one, to be posted for a receive.
    Here(P::Buf, Option<P::To>),
    /// Between two of these.
    Nowhere,
}

/// Serves requests on memory of this side: see the [crate documentation](crate).
///
/// The endpoint serves this server alone: it takes every message for a request.
///
/// ```
/// use loom_core::allocator_api2::alloc::Global;
/// use loom_core::atomic::FetchOp;
/// use loom_updates::{MESSAGE_LEN, UpdateServer, Updates};
/// use loom_core::Spins;
///
/// # use loom_core::soft::{Network, NetworkAttr};
/// # use loom_core::{Access, Av, Cq, Domain, Mr};
/// # let network = Network::new(NetworkAttr::default())?;
/// # let domain = Domain::open(&network.info())?;
/// # let (av, cq) = (Av::open(&domain, 2)?, Cq::open(&domain, 32)?);
/// # let (alice, bob) = (cq.endpoint(&av)?, cq.endpoint(&av)?);
/// # let (to_alice, to_bob) = (av.insert(&alice.address()?)?, av.insert(&bob.address()?)?);
/// # let memory = Mr::open(&domain, vec![0; 64], Access::REMOTE_READ | Access::REMOTE_WRITE)?;
/// # let offset = memory.window().as_ptr().align_offset(8) as u64;
/// # let buffers = || std::iter::repeat_with(|| vec![0; MESSAGE_LEN]);
/// # use loom_core::{Forever, Source};
/// # // A strict network refuses the first messages between two endpoints for the moment.
/// # for (from, to, peer) in [(&alice, &bob, to_bob), (&bob, &alice, to_alice)] {
/// #     let received = to.recv(Source::Any, Vec::new())?;
/// #     cq.retry(Forever, || from.inject(peer, &[]))?;
/// #     cq.finish(received, Forever)?.result()?;
/// # }
/// # let mut updates = Updates::open_in(alice, 0, buffers(), 4, Global)?;
/// // The server has one client, and takes four requests at a time.
/// let mut server = UpdateServer::open_in(bob, [to_alice], buffers(), 4, Global)?;
/// let key = updates.fetch(to_bob, offset, FetchOp::<u64>::SUM, 7)?;
/// let mut done = 0;
/// while updates.wait(key, Spins(0))?.is_none() {
///     // The owner of the memory calls this again and again.
///     done += server.progress(memory.window())?;
/// }
/// assert_eq!((done, server.refused()), (1, 0));
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct UpdateServer<P: MsgSend, A: Allocator> {
    protocol: P,
    clients: Array<P::To, A>,
    places: Array<Place<P>, A>,
    refused: u64,
}

impl<P, A> UpdateServer<P, A>
where
    P: MsgSend + MsgRecv,
    P::Buf: SourceBuffer + TargetBuffer,
    A: Allocator + Clone,
{
    /// Opens a server for these clients, numbered from zero, with `depth` buffers: it holds at most
    /// as many requests and answers.
    ///
    /// # Errors
    /// - [`OpenError::Size`] if `depth` or the number of clients is zero, buffers are missing, or a
    ///   buffer is not [`MESSAGE_LEN`] readable and writable bytes
    /// - [`OpenError::OutOfMemory`]
    pub fn open_in(
        protocol: P,
        clients: impl IntoIterator<Item = P::To, IntoIter: ExactSizeIterator>,
        buffers: impl IntoIterator<Item = P::Buf>,
        depth: usize,
        alloc: A,
    ) -> Result<Self, OpenError> {
        let (mut clients, mut buffers) = (clients.into_iter(), buffers.into_iter());
        let count = clients.len();
        if count == 0 || depth == 0 {
            return Err(OpenError::Size);
        }
        let clients = Array::try_new_in(count, alloc.clone(), |_| clients.next().ok_or(OpenError::Size))?;
        let places = Array::try_new_in(depth, alloc, |_| {
            let mut buf = buffers.next().ok_or(OpenError::Size)?;
            message_of(&mut buf).ok_or(OpenError::Size)?;
            Ok(Place::Here(buf, None))
        })?;
        Ok(UpdateServer { protocol, clients, places, refused: 0 })
    }

    /// Does arrived requests in this memory (a region's window, or atomics of the program), and
    /// sends the answers. Returns the number of updates.
    ///
    /// # Errors
    /// - [`UpdateError::Post`] if the endpoint refuses a receive
    /// - [`UpdateError::Queue`] if the queue has failed
    pub fn progress<'w>(&mut self, memory: impl Into<Window<'w>>) -> Result<usize, UpdateError<P::PostError>> {
        let window = memory.into();
        let mut done = 0;
        for at in 0..self.places.len() {
            let Some(place) = self.places.get_mut(at) else { break };
            let (next, did) = match mem::replace(place, Place::Nowhere) {
                Place::Receiving(key) => match self.protocol.wait(key, Spins(0)) {
                    Ok(Some(received)) => self.request(received, window),
                    Ok(None) => (Place::Receiving(key), false),
                    Err(error) => return self.put_back(at, Place::Receiving(key), error),
                },
                Place::Answering(key) => match self.protocol.wait(key, Spins(0)) {
                    // Even if the answer was not delivered: the client gives up.
                    Ok(Some(sent)) => (Place::Here(sent.buf, None), false),
                    Ok(None) => (Place::Answering(key), false),
                    Err(error) => return self.put_back(at, Place::Answering(key), error),
                },
                other => (other, false),
            };
            done += usize::from(did);
            self.post(at, next)?;
        }
        Ok(done)
    }

    fn put_back<V>(&mut self, at: usize, place: Place<P>, error: CqError) -> Result<V, UpdateError<P::PostError>> {
        self.put(at, place);
        Err(UpdateError::Queue(error))
    }

    fn put(&mut self, at: usize, place: Place<P>) {
        if let Some(old) = self.places.get_mut(at) {
            *old = place;
        }
    }

    /// Returns `false` if the message is no valid request.
    fn request(
        &mut self,
        received: Outcome<P::Buf, <P as Completes>::OpError>,
        window: Window<'_>,
    ) -> (Place<P>, bool) {
        let Outcome { mut buf, result } = received;
        let whole = result.is_ok_and(|transfer| transfer.len == MESSAGE_LEN);
        let message = message_of(&mut buf).filter(|_| whole);
        let request = message.as_deref().and_then(Request::decode);
        let client = request.as_ref().and_then(|request| self.clients.get(usize::try_from(request.client).ok()?));
        let (Some(message), Some(request), Some(to)) = (message, request, client) else {
            self.refused += 1;
            return (Place::Here(buf, None), false);
        };
        let Request { client, number, .. } = request;
        *message = Answer { client, number, result: request.apply(window) }.encode();
        (Place::Here(buf, Some(*to)), true)
    }

    fn post(&mut self, at: usize, place: Place<P>) -> Result<(), UpdateError<P::PostError>> {
        let place = match place {
            Place::Here(buf, Some(to)) => match self.protocol.send(to, buf) {
                Ok(key) => Place::Answering(key),
                Err(refused) if refused.error.is_transient() => Place::Here(refused.value, Some(to)),
                // The client has gone.
                Err(refused) => Place::Here(refused.value, None),
            },
            other => other,
        };
        let place = match place {
            Place::Here(buf, None) => match self.protocol.recv(P::ANY, buf) {
                Ok(key) => Place::Receiving(key),
                Err(refused) => {
                    let error = refused.error;
                    self.put(at, Place::Here(refused.value, None));
                    return if error.is_transient() { Ok(()) } else { Err(UpdateError::Post(error)) };
                }
            },
            other => other,
        };
        self.put(at, place);
        Ok(())
    }

    /// Number of messages without a valid request.
    #[must_use]
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// Protocol that the server runs over.
    #[must_use]
    pub const fn protocol(&self) -> &P {
        &self.protocol
    }
}

impl<P: MsgSend, A: Allocator> fmt::Debug for UpdateServer<P, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (clients, depth) = (self.clients.len(), self.places.len());
        f.debug_struct("UpdateServer").field("clients", &clients).field("depth", &depth).finish_non_exhaustive()
    }
}
