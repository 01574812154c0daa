use core::fmt;
use core::marker::PhantomData;
use core::mem;

use allocator_api2::alloc::Allocator;
use loom_core::atomic::{Atomic, CompareOp, Element, FetchOp, Form, Operation, ReadOp};
use loom_core::buffer::{SourceBuffer, TargetBuffer};
use loom_core::deadline::{Deadline, Spins};
use loom_core::error::OpenError;
use loom_core::storage::Array;
use loom_core::vocabulary::{AtomicOp, Errno};
use loom_static::protocol::{MsgRecv, MsgSend, Outcome, PostFailure};

use crate::wire::{Answer, MESSAGE_LEN, Request, Value, from_value, to_value};
use crate::{UpdateError, message_of};

/// Request whose answer has not been taken.
///
/// If it is lost, the request's slot stays taken until [`Updates::give_up_all`].
///
/// ```
/// use loom_core::Forever;
/// use loom_core::allocator_api2::alloc::Global;
/// use loom_core::atomic::FetchOp;
/// use loom_static::protocol::{MsgRecv, MsgSend};
/// use loom_updates::{UpdateError, Updates};
///
/// /// Takes a ticket of two servers at the same time: the keys say later which answer is meant.
/// fn tickets<P>(updates: &mut Updates<P, Global>, servers: [P::To; 2]) -> Result<Option<[u64; 2]>, UpdateError<P::PostError>>
/// where
///     P: MsgSend<Buf = Vec<u8>> + MsgRecv,
/// {
///     let [one, two] = servers;
///     let first = updates.fetch(one, 0, FetchOp::<u64>::SUM, 1)?;
///     let second = updates.fetch(two, 0, FetchOp::<u64>::SUM, 1)?;
///     let second = updates.wait(second, Forever)?;
///     Ok(updates.wait(first, Forever)?.zip(second).map(<[u64; 2]>::from))
/// }
/// ```
pub struct UpdateKey<E> {
    number: u64,
    element: PhantomData<fn() -> E>,
}

impl<E> Copy for UpdateKey<E> {}

impl<E> Clone for UpdateKey<E> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<E> PartialEq for UpdateKey<E> {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl<E> fmt::Debug for UpdateKey<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UpdateKey({})", self.number)
    }
}

#[derive(Clone, Copy)]
enum State {
    Free,
    Requested,
    /// Former value, or the server's error.
    Answered(Result<Value, Errno>),
    Lost,
}

struct Slot<P: MsgSend> {
    buf: Sent<P>,
    state: State,
    /// Number of the current or last request. The lower 32 bits are the index of the slot.
    number: u64,
}

enum Sent<P: MsgSend> {
    Here(P::Buf),
    UnderWay(P::Key),
    Nowhere,
}

enum Receive<P: MsgRecv> {
    Posted(P::Key),
    Here(P::Buf),
    Nowhere,
}

/// Requests updates of servers' memory: see the [crate documentation](crate).
///
/// The endpoint serves this client alone: it takes every message for an answer.
///
/// ```
/// use loom_core::Spins;
/// use loom_core::allocator_api2::alloc::Global;
/// use loom_core::atomic::CompareOp;
/// use loom_updates::Updates;
/// # use loom_updates::{MESSAGE_LEN, UpdateServer};
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
/// # // A strict network refuses the first messages between two endpoints.
/// # for (from, to, peer) in [(&alice, &bob, to_bob), (&bob, &alice, to_alice)] {
/// #     let received = to.recv(Source::Any, Vec::new())?;
/// #     cq.retry(Forever, || from.inject(peer, &[]))?;
/// #     cq.finish(received, Forever)?.result()?;
/// # }
/// # let mut server = UpdateServer::open_in(bob, [to_alice], buffers(), 4, Global)?;
///
/// // Client 0, with at most four requests in flight, takes a lock: it replaces 0 by 1.
/// let mut updates = Updates::open_in(alice, 0, buffers(), 4, Global)?;
/// let key = updates.compare(to_bob, offset, CompareOp::<u64>::CSWAP, 0, 1)?;
/// let before = loop {
///     // On the server:
///     server.progress(memory.window())?;
///     if let Some(before) = updates.wait(key, Spins(0))? {
///         break before;
///     }
/// };
/// assert_eq!(before, 0);
/// # Ok::<_, loom_core::Error>(())
/// ```
pub struct Updates<P: MsgSend + MsgRecv, A: Allocator> {
    protocol: P,
    client: u32,
    slots: Array<Slot<P>, A>,
    receives: Array<Receive<P>, A>,
}

impl<P, A> Updates<P, A>
where
    P: MsgSend + MsgRecv,
    P::Buf: SourceBuffer + TargetBuffer,
    A: Allocator + Clone,
{
    /// Opens client number `client` of its servers, with at most `depth` requests in flight and
    /// twice as many buffers.
    ///
    /// # Errors
    /// - [`OpenError::Size`] if `depth` is zero or 2^32 or more, buffers are missing, or a buffer
    ///   is not [`MESSAGE_LEN`] readable and writable bytes
    /// - [`OpenError::OutOfMemory`]
    pub fn open_in(
        protocol: P,
        client: u32,
        buffers: impl IntoIterator<Item = P::Buf>,
        depth: usize,
        alloc: A,
    ) -> Result<Self, OpenError> {
        if depth == 0 || u32::try_from(depth).is_err() {
            return Err(OpenError::Size);
        }
        let mut buffers = buffers.into_iter();
        let mut next = || {
            let mut buf = buffers.next().ok_or(OpenError::Size)?;
            message_of(&mut buf).ok_or(OpenError::Size)?;
            Ok::<_, OpenError>(buf)
        };
        let slots = Array::try_new_in(depth, alloc.clone(), |at| {
            Ok(Slot { buf: Sent::Here(next()?), state: State::Free, number: at as u64 })
        })?;
        let receives = Array::try_new_in(depth, alloc, |_| Ok(Receive::Here(next()?)))?;
        Ok(Updates { protocol, client, slots, receives })
    }

    /// Requests a change of the element `offset` bytes into a server's memory, and its former
    /// value, for example fetch-and-add.
    ///
    /// # Errors
    /// - [`UpdateError::Full`] if `depth` requests are in flight: call [`progress`](Self::progress)
    ///   and retry
    /// - [`UpdateError::Post`] if the request was not sent: likewise if transient
    ///   ([`PostError::is_transient`]), as the first message to a peer may be
    ///
    /// [`PostError::is_transient`]: loom_core::error::PostError::is_transient
    pub fn fetch<E: Element>(
        &mut self,
        to: P::To,
        offset: u64,
        op: FetchOp<E>,
        operand: E,
    ) -> Result<UpdateKey<E>, UpdateError<P::PostError>> {
        self.request(to, offset, op.atomic(), [operand, operand])
    }

    /// Requests the value of an element.
    ///
    /// # Errors
    /// See [`fetch`](Self::fetch).
    pub fn read<E: Element>(&mut self, to: P::To, offset: u64) -> Result<UpdateKey<E>, UpdateError<P::PostError>> {
        let zero = from_value(Value::default());
        self.request(to, offset, ReadOp::<E>::READ.atomic(), [zero, zero])
    }

    /// Requests that `operand` replace the element if the operation's comparison of `compare` and
    /// the element holds, and the element's former value. An example is compare-and-swap.
    ///
    /// # Errors
    /// See [`fetch`](Self::fetch).
    pub fn compare<E: Element>(
        &mut self,
        to: P::To,
        offset: u64,
        op: CompareOp<E>,
        compare: E,
        operand: E,
    ) -> Result<UpdateKey<E>, UpdateError<P::PostError>> {
        self.request(to, offset, op.atomic(), [operand, compare])
    }

    fn request<E: Element>(
        &mut self,
        to: P::To,
        offset: u64,
        atomic: Atomic,
        [operand, compare]: [E; 2],
    ) -> Result<UpdateKey<E>, UpdateError<P::PostError>> {
        debug_assert!(atomic.form == Form::Compare || atomic.op < AtomicOp::CSWAP, "operations have types");
        let free = |slot: &&mut Slot<P>| matches!((&slot.state, &slot.buf), (State::Free, Sent::Here(_)));
        let Some(slot) = self.slots.iter_mut().find(free) else { return Err(UpdateError::Full) };
        let Sent::Here(mut buf) = mem::replace(&mut slot.buf, Sent::Nowhere) else { return Err(UpdateError::Full) };
        let number = slot.number.wrapping_add(1 << 32);
        let (operand, compare) = (to_value(operand), to_value(compare));
        if let Some(message) = message_of(&mut buf) {
            *message = Request { atomic, client: self.client, number, offset, operand, compare }.encode();
        }
        match self.protocol.send(to, buf) {
            Ok(key) => {
                (slot.buf, slot.state, slot.number) = (Sent::UnderWay(key), State::Requested, number);
                Ok(UpdateKey { number, element: PhantomData })
            }
            Err(refused) => {
                slot.buf = Sent::Here(refused.value);
                Err(UpdateError::Post(refused.error))
            }
        }
    }

    /// Receives answers, and takes back the buffers of sent requests.
    ///
    /// # Errors
    /// - [`UpdateError::Post`] if the endpoint refuses a receive
    /// - [`UpdateError::Queue`] if the queue has failed
    pub fn progress(&mut self) -> Result<(), UpdateError<P::PostError>> {
        for at in 0..self.receives.len() {
            let Some(receive) = self.receives.get_mut(at) else { break };
            let buf = match mem::replace(receive, Receive::Nowhere) {
                Receive::Posted(key) => match self.protocol.wait(key, Spins(0)) {
                    Ok(Some(Outcome { mut buf, result })) => {
                        let whole = result.is_ok_and(|transfer| transfer.len == MESSAGE_LEN);
                        let answer = message_of(&mut buf).filter(|_| whole).and_then(|message| Answer::decode(message));
                        self.answered(answer);
                        buf
                    }
                    unchanged => {
                        *receive = Receive::Posted(key);
                        match unchanged {
                            Err(error) => return Err(UpdateError::Queue(error)),
                            Ok(_) => continue,
                        }
                    }
                },
                Receive::Here(buf) => buf,
                Receive::Nowhere => continue,
            };
            let posted = self.protocol.recv(P::ANY, buf);
            let Some(receive) = self.receives.get_mut(at) else { break };
            match posted {
                Ok(key) => *receive = Receive::Posted(key),
                Err(refused) => {
                    *receive = Receive::Here(refused.value);
                    if !refused.error.is_transient() {
                        return Err(UpdateError::Post(refused.error));
                    }
                }
            }
        }
        for slot in &mut *self.slots {
            let Sent::UnderWay(key) = slot.buf else { continue };
            let Some(Outcome { buf, result }) = self.protocol.wait(key, Spins(0)).map_err(UpdateError::Queue)? else {
                continue;
            };
            slot.buf = Sent::Here(buf);
            if result.is_err() && matches!(slot.state, State::Requested) {
                slot.state = State::Lost;
            }
        }
        Ok(())
    }

    fn answered(&mut self, answer: Option<Answer>) {
        let Some(Answer { client, number, result }) = answer else { return };
        #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
        let slot = self.slots.get_mut(number as u32 as usize);
        if let Some(slot) = slot.filter(|slot| slot.number == number && client == self.client)
            && matches!(slot.state, State::Requested | State::Lost)
        {
            slot.state = State::Answered(result);
        }
    }

    fn slot<E>(&mut self, key: UpdateKey<E>) -> Option<&mut Slot<P>> {
        #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
        let slot = self.slots.get_mut(key.number as u32 as usize)?;
        (slot.number == key.number && !matches!(slot.state, State::Free)).then_some(slot)
    }

    /// Waits for an answer and returns the former value, or `Ok(None)` at the deadline, with the
    /// request still in flight.
    ///
    /// # Errors
    /// - [`UpdateError::Refused`] if the server refused the update: `EFAULT` beyond its memory,
    ///   `EINVAL` if the element is misaligned, `EACCES` if the memory is read-only, `EOPNOTSUPP`
    ///   if its processor cannot change the element in one step
    /// - [`UpdateError::Lost`] if the request was not delivered
    /// - [`UpdateError::UnknownKey`] if the answer was taken or given up
    /// - Those of [`progress`](Self::progress)
    pub fn wait<E: Element>(
        &mut self,
        key: UpdateKey<E>,
        mut until: impl Deadline,
    ) -> Result<Option<E>, UpdateError<P::PostError>> {
        loop {
            let slot = self.slot(key).ok_or(UpdateError::UnknownKey)?;
            let state = slot.state;
            if !matches!(state, State::Requested) {
                slot.state = State::Free;
            }
            match state {
                State::Answered(Ok(value)) => return Ok(Some(from_value(value))),
                State::Answered(Err(errno)) => return Err(UpdateError::Refused(errno)),
                State::Lost => return Err(UpdateError::Lost),
                State::Requested | State::Free => {}
            }
            self.progress()?;
            let still = matches!(self.slot(key).map(|slot| slot.state), Some(State::Requested));
            if still && until.passed() {
                return Ok(None);
            }
        }
    }

    /// Frees the slot of a request that may never be answered. Returns `true` if it was pending.
    /// The update may have been done, or be done later.
    pub fn give_up<E>(&mut self, key: UpdateKey<E>) -> bool {
        self.slot(key).map(|slot| slot.state = State::Free).is_some()
    }

    /// Gives up all requests with untaken answers ([`give_up`](Self::give_up)).
    pub fn give_up_all(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.state = State::Free);
    }

    /// Protocol that the client runs over.
    #[must_use]
    pub const fn protocol(&self) -> &P {
        &self.protocol
    }
}

impl<P: MsgSend + MsgRecv, A: Allocator> fmt::Debug for Updates<P, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (client, depth) = (self.client, self.slots.len());
        f.debug_struct("Updates").field("client", &client).field("depth", &depth).finish_non_exhaustive()
    }
}
