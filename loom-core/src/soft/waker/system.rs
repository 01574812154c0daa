//! The bell of a system with threads and descriptors.

use core::ffi::c_int;
use core::time::Duration;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::sync::{AtomicBool, Ordering};
use crate::vocabulary::{Errno, WaitObj};

/// What a thread sleeps on: in a call ([`wait`](Self::wait)), or in a call of its own on a descriptor, if there is one.
#[derive(Debug)]
pub(in crate::soft) struct Bell {
    /// Whether it was rung, and the sleeper has not heard it. Used with the lock held, which orders it: an atomic for ThreadSanitizer alone,
    /// which does not see what the standard library's lock does.
    rung: AtomicBool,
    lock: Mutex<()>,
    condition: Condvar,
    descriptor: Option<Descriptor>,
}

/// Two sockets that are connected: one is readable when a byte was written to the other.
#[derive(Debug)]
struct Descriptor {
    shown: UnixStream,
    write: UnixStream,
}

impl Descriptor {
    fn new() -> io::Result<Self> {
        let (shown, write) = UnixStream::pair()?;
        shown.set_nonblocking(true)?;
        write.set_nonblocking(true)?;
        Ok(Descriptor { shown, write })
    }
}

impl Bell {
    /// One for a queue that is opened so, if it [exists](super::exists_for). All that it needs is taken now.
    ///
    /// # Errors
    /// What the system says.
    pub(in crate::soft) fn new(wait: WaitObj) -> Result<Self, Errno> {
        let errno = |error: io::Error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
        let descriptor = (wait == WaitObj::FD).then(Descriptor::new).transpose().map_err(errno)?;
        Ok(Bell { rung: AtomicBool::new(false), lock: Mutex::new(()), condition: Condvar::new(), descriptor })
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        // No thread panics while it holds the lock.
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a [`wait`](Self::wait): the one that goes on, or else the next one.
    pub(in crate::soft) fn ring(&self) {
        let held = self.lock();
        self.rung.store(true, Ordering::Relaxed);
        drop(held);
        self.condition.notify_one();
    }

    /// Sleeps until the bell is [rung](Self::ring) or the time is over: whether it was rung.
    pub(in crate::soft) fn wait(&self, left: &Left) -> bool {
        let is_quiet = |(): &mut ()| !self.rung.load(Ordering::Relaxed);
        let _held = match left.end {
            None => self.condition.wait_while(self.lock(), is_quiet).unwrap_or_else(PoisonError::into_inner),
            Some(end) => {
                let time = end.saturating_duration_since(Instant::now());
                let waited = self.condition.wait_timeout_while(self.lock(), time, is_quiet);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
        };
        self.rung.swap(false, Ordering::Relaxed)
    }

    /// Makes the descriptor readable, if there is one, until it is [hidden](Self::hide).
    pub(in crate::soft) fn show(&self) {
        let Some(descriptor) = &self.descriptor else { return };
        // Where there is no room for the byte, the descriptor is readable by others; there is no other error on two sockets that are
        // closed together.
        while matches!((&descriptor.write).write(&[1]), Err(error) if error.kind() == ErrorKind::Interrupted) {}
    }

    /// Makes the descriptor unreadable.
    pub(in crate::soft) fn hide(&self) {
        let Some(descriptor) = &self.descriptor else { return };
        let mut bytes = [0; 64];
        loop {
            match (&descriptor.shown).read(&mut bytes) {
                Ok(1..) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => return,
            }
        }
    }

    /// # Errors
    /// `ENOSYS` if there is none.
    pub(in crate::soft) fn descriptor(&self) -> Result<c_int, Errno> {
        self.descriptor.as_ref().map(|descriptor| descriptor.shown.as_raw_fd()).ok_or(Errno::ENOSYS)
    }
}

/// How long a sleep may still last.
#[derive(Debug)]
pub(in crate::soft) struct Left {
    /// `None` for a sleep without an end.
    end: Option<Instant>,
}

impl Left {
    /// From now on; negative ones are for ever.
    pub(in crate::soft) fn milliseconds(number: i32) -> Self {
        let time = u64::try_from(number).ok().map(Duration::from_millis);
        Left { end: time.and_then(|time| Instant::now().checked_add(time)) }
    }
}
