//! Events of sockets and of the timer.

use core::mem::MaybeUninit;

use loom_core::transport::Event;
use loom_core::vocabulary::Errno;
use rustix::event::epoll::{self, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io;
use rustix::time::Timespec;

use super::connection::State;
use super::shared::LOOKS;
use super::socket::{Token, errno};
use super::{Engine, NIL};

/// Events of one system call.
const EVENTS: usize = 64;

/// Polls of the last connection alone, while it has bytes.
const LAST_IN_A_ROW: u32 = 16;
/// Polls without bytes, if it is the only connection, and if it is not.
const MISSES: [u32; 2] = [16, 2];

/// Polls of the last connection with bytes, after which the kernel no longer watches it: events
/// take 4 % of half a round trip.
const UNWATCHED: u32 = 256;

/// Polls of queues with events for which frames are not sent.
const DELAYS: u32 = 16;

/// No queue is being polled.
pub(super) const NO_QUEUE: u16 = u16::MAX;

impl Engine {
    /// Returns the next event of a queue, if it is a success. Without an event, drives progress.
    /// Frames are sent when the queue is empty, because the program may post more for each event,
    /// or after some polls.
    #[inline]
    pub(crate) fn poll(&mut self, queue: u16) -> Result<Option<Event>, Errno> {
        let event = self.take_success(queue);
        if !matches!(event, Ok(None)) {
            self.delays += 1;
            if self.delays >= DELAYS {
                self.poll_late(queue);
            }
            return event;
        }
        if self.is_dirty() {
            self.send_delayed(queue);
        }
        self.poll_sockets(queue)?;
        self.take_success(queue)
    }

    fn send_delayed(&mut self, queue: u16) {
        self.delays = 0;
        self.polled = queue;
        self.send_dirty();
        self.polled = NO_QUEUE;
    }

    /// Serves peers of a program that always has an event, as sends over shared memory complete.
    #[cold]
    fn poll_late(&mut self, queue: u16) {
        self.send_delayed(queue);
        if self.shared_count > 0 {
            // A poll without an event reports the error.
            let _ = self.poll_sockets(queue);
        }
    }

    #[inline]
    fn poll_sockets(&mut self, queue: u16) -> Result<(), Errno> {
        if self.shared_count > 0 {
            let has_read = self.poll_shared(queue);
            if self.has_to_look() {
                return self.progress(queue, 0);
            }
            if has_read || self.last == NIL {
                return Ok(());
            }
        }
        if self.read_last(queue) { Ok(()) } else { self.handle_events(queue, 0) }
    }

    /// Reads the connection that had the last bytes. Returns `false` if all have their turn.
    fn read_last(&mut self, queue: u16) -> bool {
        if self.last == NIL || self.try_paused && self.paused > 0 {
            return false;
        }
        // Receives delay the acknowledgements that make room, which the kernel reports.
        if self.connections[self.last as usize].is_full {
            return false;
        }
        let is_alone = self.free_connections.count() + 1 >= u32::from(self.attr.connections);
        let most = if self.last_had_bytes { LAST_IN_A_ROW } else { MISSES[usize::from(!is_alone)] };
        if self.polls_of_last >= most {
            self.polls_of_last = 0;
            self.last_had_bytes = false;
            return false;
        }
        self.polls_of_last += 1;
        self.turn += 1;
        self.polled = queue;
        let before = self.connections[self.last as usize].received;
        self.read(self.last);
        self.send_dirty();
        self.polled = NO_QUEUE;
        self.last_had_bytes = self.last != NIL && self.connections[self.last as usize].received != before;
        if self.last_had_bytes {
            self.reads_of_last += 1;
            if self.reads_of_last.is_multiple_of(UNWATCHED) && !self.connections[self.last as usize].is_full {
                self.watch(self.last, EventFlags::empty());
            }
        }
        true
    }

    /// Records the connection that had the last bytes.
    #[inline]
    pub(super) fn set_last(&mut self, index: u32) {
        if self.last != index && self.watch_last() {
            self.last = index;
        }
    }

    /// Watches the last connection again, for all but polls in a row. Returns `false` if the kernel
    /// has no memory for it.
    pub(super) fn watch_last(&mut self) -> bool {
        if self.reads_of_last >= UNWATCHED && self.last != NIL {
            self.watch_open(self.last);
            let connection = &self.connections[self.last as usize];
            if connection.watched.is_none() && !connection.is_paused {
                return false;
            }
        }
        self.reads_of_last = 0;
        true
    }

    /// Handles the kernel's events, and waits for the first one for at most so many milliseconds
    /// (without limit if negative).
    pub(crate) fn progress(&mut self, queue: u16, milliseconds: i32) -> Result<(), Errno> {
        self.watch_last();
        self.handle_events(queue, milliseconds)
    }

    /// Handles events of watched connections.
    fn handle_events(&mut self, queue: u16, milliseconds: i32) -> Result<(), Errno> {
        self.turn += 1;
        self.polled = queue;
        self.looks = 0;
        let result = self.wait(milliseconds);
        if self.try_paused && self.paused > 0 {
            self.read_paused();
        }
        self.send_dirty();
        self.polled = NO_QUEUE;
        result
    }

    fn wait(&mut self, milliseconds: i32) -> Result<(), Errno> {
        if self.try_paused && self.paused > 0 {
            self.read_paused();
            self.send_dirty();
        }
        let timeout = u32::try_from(milliseconds).ok().map(|milliseconds| Timespec {
            tv_sec: (milliseconds / 1000).into(),
            tv_nsec: (milliseconds % 1000 * 1_000_000).into(),
        });
        let mut room = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS];
        let events = match epoll::wait(&self.epoll, &mut room, timeout.as_ref()) {
            Ok((events, _)) => events,
            Err(io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(errno(error)),
        };
        let mut periods = 0;
        for event in events {
            let (data, flags) = (event.data, event.flags);
            match Token::of(data) {
                Token::Timer => {
                    let mut passed = [0; 8];
                    if io::read(&self.timer, &mut passed).is_ok() {
                        periods = u64::from_ne_bytes(passed);
                    }
                }
                Token::Listener(endpoint) => self.accept(endpoint),
                Token::Connection { index, generation } => self.advance_connection(index, generation, flags),
            }
        }
        // After the connections, which may have opened meanwhile.
        if periods > 0 {
            self.tick(periods);
        }
        Ok(())
    }

    fn advance_connection(&mut self, index: u32, generation: u32, flags: EventFlags) {
        let Some(connection) = self.connections.get_mut(index as usize) else { return };
        if connection.generation != generation || connection.socket.is_none() {
            return;
        }
        let ended = EventFlags::ERR | EventFlags::HUP;
        match connection.state {
            State::Connecting => self.finish_connecting(index),
            State::Free | State::Waiting | State::Pending => {}
            State::Securing | State::Requested | State::Accepted | State::Offered | State::Open => {
                if connection.is_full && flags.intersects(EventFlags::OUT | ended) {
                    connection.is_full = false;
                    self.watch_open(index);
                    self.flush(index);
                }
                let connection = &self.connections[index as usize];
                if connection.generation != generation || connection.socket.is_none() {
                    return;
                }
                if !flags.intersects(EventFlags::IN | ended) {
                    return;
                }
                if connection.state == State::Open && connection.pipe.is_some() {
                    self.read_wakes(index);
                } else if !connection.is_paused {
                    self.read(index);
                }
            }
        }
    }

    /// Returns `true` if the kernel has events, which the next poll then handles: a program that
    /// sleeps is woken by new ones alone.
    pub(super) fn has_kernel_events(&mut self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let has_events = poll(&mut [PollFd::new(&self.epoll, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0);
        if has_events {
            self.polls_of_last = LAST_IN_A_ROW;
            self.looks = LOOKS;
        }
        has_events
    }
}
