//! Connections (`FI_EP_MSG`).

use std::vec::Vec;

use loom_core::endpoint::{Binding, Connecting};
use loom_core::eq::{ConnectionRequest, PassiveEndpoint};
use loom_core::error::PostError;
use loom_core::transport::Connected;
use loom_core::{
    Buffer, Cq, Domain, EndpointAddr, EqAttr, EqEvent, Errno, Error, EventQueue, MsgEndpoint, RemoteRegion,
    SendOptions, ThePeer,
};

use super::{Change, Incoming, Outcome, Outgoing, Part};

type Endpoint<'m, T, M, S> = MsgEndpoint<'m, T, Part<'m, T, M>, S>;

enum State<'m, T: Connected, M: Buffer + Send> {
    Idle,
    Connecting(Endpoint<'m, T, M, Connecting>),
    Connected(MsgEndpoint<'m, T, Part<'m, T, M>>),
}

pub(super) struct Connections<'m, T: Connected, M: Buffer + Send> {
    states: Vec<State<'m, T, M>>,
    cq: Cq<'m, T, Part<'m, T, M>>,
    eq: EventQueue<'m, T>,
    domain: Domain<'m, T>,
}

impl<'m, T: Connected, M: Buffer + Send> Connections<'m, T, M> {
    pub(super) fn open(domain: &Domain<'m, T>, cq: &Cq<'m, T, Part<'m, T, M>>, targets: u16) -> Result<Self, Error> {
        let eq = EventQueue::open(domain, EqAttr::default())?;
        let states = (0..targets).map(|_| State::Idle).collect();
        Ok(Connections { states, cq: cq.clone(), eq, domain: domain.clone() })
    }

    fn target(&mut self, event: &EqEvent<'m, T>) -> Option<Outcome> {
        for (index, state) in self.states.iter_mut().enumerate() {
            let (ends, errno) = match (event, &*state) {
                (EqEvent::Connected(event), State::Connecting(endpoint)) if event.is_of(endpoint) => {
                    let State::Connecting(endpoint) = core::mem::replace(state, State::Idle) else { return None };
                    return match endpoint.established(event) {
                        Ok(endpoint) => {
                            *state = State::Connected(endpoint);
                            Some((index, Ok(())))
                        }
                        Err(endpoint) => {
                            *state = State::Connecting(endpoint);
                            None
                        }
                    };
                }
                (EqEvent::Shutdown(event), State::Connecting(endpoint)) => (event.is_of(endpoint), Errno::ECONNRESET),
                (EqEvent::Shutdown(event), State::Connected(endpoint)) => (event.is_of(endpoint), Errno::ECONNRESET),
                (EqEvent::Failed(failure), State::Connecting(endpoint)) => {
                    (failure.is_of(endpoint), failure.fault.errno)
                }
                (EqEvent::Failed(failure), State::Connected(endpoint)) => {
                    (failure.is_of(endpoint), failure.fault.errno)
                }
                _ => continue,
            };
            if ends {
                return Some((index, Err(errno)));
            }
        }
        None
    }
}

impl<'m, T: Connected, M: Buffer + Send> Outgoing<'m, T, M> for Connections<'m, T, M> {
    fn open(&mut self, index: usize, to: &EndpointAddr) -> Result<bool, Error> {
        let endpoint = self.cq.msg_endpoint(Binding::to(&self.eq), self.domain.info())?;
        let connecting = endpoint.connect(to, &[]).map_err(|rejected| rejected.error)?;
        if let Some(state) = self.states.get_mut(index) {
            *state = State::Connecting(connecting);
        }
        Ok(false)
    }

    fn close(&mut self, index: usize) {
        if let Some(state) = self.states.get_mut(index) {
            *state = State::Idle;
        }
    }

    fn next(&mut self) -> Result<Option<Outcome>, Error> {
        while let Some(event) = self.eq.poll()? {
            let found = self.target(&event);
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    fn write(
        &self,
        index: usize,
        to: &RemoteRegion,
        options: SendOptions,
        part: Part<'m, T, M>,
    ) -> Result<(), PostError> {
        let Some(State::Connected(endpoint)) = self.states.get(index) else { return Err(PostError::UnknownPeer) };
        endpoint.write_with(ThePeer, &[*to], options, part).map(|_| ()).map_err(|rejected| rejected.error)
    }
}

pub(super) struct Listener<'m, T: Connected> {
    connection: Option<MsgEndpoint<'m, T, Vec<u8>>>,
    accepting: Option<MsgEndpoint<'m, T, Vec<u8>, Connecting>>,
    request: Option<ConnectionRequest<'m, T>>,
    listener: PassiveEndpoint<'m, T>,
    cq: Cq<'m, T, Vec<u8>>,
    eq: EventQueue<'m, T>,
    writes: u16,
}

impl<'m, T: Connected> Listener<'m, T> {
    pub(super) fn open(domain: &Domain<'m, T>, cq: &Cq<'m, T, Vec<u8>>, writes: u16) -> Result<Self, Error> {
        let eq = EventQueue::open(domain, EqAttr::default())?;
        let listener = eq.listen(domain.info())?;
        Ok(Listener { connection: None, accepting: None, request: None, listener, cq: cq.clone(), eq, writes })
    }

    fn ended(
        &mut self,
        error: Option<Error>,
        is_accepting: impl FnOnce(&MsgEndpoint<'m, T, Vec<u8>, Connecting>) -> bool,
        is_connection: impl FnOnce(&MsgEndpoint<'m, T, Vec<u8>>) -> bool,
    ) -> Option<Change> {
        if self.accepting.as_ref().is_some_and(is_accepting) {
            self.accepting = None;
            return Some(Change::Unconnected(error.unwrap_or(Error::Provider(Errno::ECONNRESET))));
        }
        self.connection.as_ref().is_some_and(is_connection).then_some(Change::Ended(error))
    }

    fn change(&mut self, event: EqEvent<'m, T>) -> Option<Change> {
        match event {
            EqEvent::Request(request) if self.connection.is_some() => {
                // The initiator tries again later.
                let _ = request.reject(&[]);
                None
            }
            // Instead of one that has not completed.
            EqEvent::Request(request) => {
                self.request = Some(request);
                Some(Change::Requested)
            }
            EqEvent::Connected(event) => match self.accepting.take()?.established(&event) {
                Ok(connection) => {
                    self.connection = Some(connection);
                    Some(Change::Attached)
                }
                Err(accepting) => {
                    self.accepting = Some(accepting);
                    None
                }
            },
            EqEvent::Shutdown(event) => self.ended(None, |accepting| event.is_of(accepting), |of| event.is_of(of)),
            EqEvent::Failed(failure) => {
                let error = Error::Provider(failure.fault.errno);
                self.ended(Some(error), |accepting| failure.is_of(accepting), |of| failure.is_of(of))
            }
            _ => None,
        }
    }
}

impl<T: Connected> Incoming for Listener<'_, T> {
    fn address(&self) -> Result<EndpointAddr, Error> {
        Ok(self.listener.address()?)
    }

    fn is_open(&self) -> bool {
        self.connection.is_some()
    }

    fn next(&mut self) -> Result<Option<Change>, Error> {
        while let Some(event) = self.eq.poll()? {
            let change = self.change(event);
            if change.is_some() {
                return Ok(change);
            }
        }
        Ok(None)
    }

    fn accept(&mut self) -> Result<(), Error> {
        let Some(request) = self.request.take() else { return Ok(()) };
        let endpoint = request.endpoint(&self.cq, Binding::to(&self.eq).remote_writes(self.writes))?;
        self.accepting = Some(endpoint.accept(&[]).map_err(|rejected| rejected.error)?);
        Ok(())
    }

    fn close(&mut self) -> bool {
        self.connection.take().is_some()
    }
}
