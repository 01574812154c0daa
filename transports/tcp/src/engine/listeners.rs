//! Listeners of endpoints, and the connections that the kernel accepts for them.

use core::net::SocketAddr;

use loom_core::vocabulary::Errno;
use rustix::event::epoll::{self, EventFlags};
use rustix::io;

use super::Engine;
use super::connection::{Connection, State};
use super::socket::{self, Token, errno};
use crate::tls::Session;

/// Connections for one event of the kernel, so that other sockets have their turn.
const ACCEPTS: usize = 16;

impl Engine {
    pub(super) fn listen(&mut self, index: u16, address: SocketAddr) -> Result<(), Errno> {
        let (listener, name) = socket::listen(address).map_err(errno)?;
        epoll::add(&self.epoll, &listener, Token::Listener(index).data(), EventFlags::IN).map_err(errno)?;
        let endpoint = &mut self.endpoints[usize::from(index)];
        endpoint.listener = Some(listener);
        endpoint.is_unwatched = false;
        endpoint.name = name;
        Ok(())
    }

    /// Accepts the connections that the kernel has for an endpoint.
    pub(super) fn accept(&mut self, endpoint: u16) {
        let mut has_accepted = false;
        for _ in 0..ACCEPTS {
            let Some(listener) = &self.endpoints[usize::from(endpoint)].listener else { return };
            if self.free_connections.count() == 0 && !self.connections.iter().any(Connection::is_dispensable) {
                return self.unwatch_listener(endpoint);
            }
            let (socket, address) = match socket::accept(listener) {
                Ok(Some((_, address))) if !self.attr.allows(address.ip()) => continue,
                Ok(Some(accepted)) => accepted,
                Ok(None) => return,
                // There are no more descriptors, also if no connection waits.
                Err(io::Errno::MFILE | io::Errno::NFILE) if has_accepted => return,
                Err(io::Errno::MFILE | io::Errno::NFILE) if self.end_dispensable() => continue,
                Err(_) => return self.unwatch_listener(endpoint),
            };
            let session = match self.tls.as_ref().map(|tls| Session::server(tls, address.ip())).transpose() {
                Ok(session) => session,
                Err(_) => continue,
            };
            has_accepted = true;
            let Ok(index) = self.take_connection(endpoint, address) else { return };
            let connection = &mut self.connections[index as usize];
            connection.socket = Some(socket);
            connection.session = session;
            connection.state = State::Accepted;
            self.begin_opening(index);
            self.watch(index, EventFlags::IN);
        }
    }

    /// Stops watching a listener until its connections may have room.
    fn unwatch_listener(&mut self, endpoint: u16) {
        let endpoint = &mut self.endpoints[usize::from(endpoint)];
        if let Some(listener) = &endpoint.listener
            && epoll::delete(&self.epoll, listener).is_ok()
        {
            endpoint.is_unwatched = true;
            self.unwatched += 1;
            self.set_timer();
        }
    }

    /// Watches the unwatched listeners again.
    pub(super) fn watch_listeners(&mut self) {
        if self.unwatched == 0 {
            return;
        }
        for (index, endpoint) in self.endpoints.iter_mut().enumerate() {
            if endpoint.is_unwatched
                && let Some(listener) = &endpoint.listener
            {
                #[expect(clippy::cast_possible_truncation, reason = "there are at most 2^16 endpoints")]
                let data = Token::Listener(index as u16).data();
                endpoint.is_unwatched = epoll::add(&self.epoll, listener, data, EventFlags::IN).is_err();
                self.unwatched -= u32::from(!endpoint.is_unwatched);
            }
        }
        self.set_timer();
    }
}
