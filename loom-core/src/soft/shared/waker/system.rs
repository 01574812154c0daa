use core::ffi::c_int;
use core::time::Duration;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::util::sync::{AtomicBool, Ordering};
use crate::vocabulary::{Errno, WaitObj};

/// Bell on which a thread sleeps: in [`wait`](Self::wait), or in a call of its own on the
/// descriptor, if it has one.
#[derive(Debug)]
pub(crate) struct Bell {
    /// `true` if `wait` has not yet consumed a ring. Used with the lock held. Atomic only for
    /// ThreadSanitizer, which does not see the standard library's lock.
    rung: AtomicBool,
    lock: Mutex<()>,
    condition: Condvar,
    descriptor: Option<Descriptor>,
}

/// Two connected sockets: a byte written to one makes the other readable.
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
    /// Creates a bell for a queue with this wait object, if it [exists](super::exists_for).
    pub(crate) fn new(wait: WaitObj) -> Result<Self, Errno> {
        let errno = |error: io::Error| error.raw_os_error().map_or(Errno::EIO, Errno::from_raw);
        let descriptor = (wait == WaitObj::FD).then(Descriptor::new).transpose().map_err(errno)?;
        Ok(Bell { rung: AtomicBool::new(false), lock: Mutex::new(()), condition: Condvar::new(), descriptor })
    }

    fn lock(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn ring(&self) {
        let held = self.lock();
        self.rung.store(true, Ordering::Relaxed);
        drop(held);
        self.condition.notify_one();
    }

    /// Returns `true` if it was rung.
    pub(crate) fn wait(&self, left: &Left) -> bool {
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

    pub(crate) fn show(&self) {
        let Some(descriptor) = &self.descriptor else { return };
        // A full socket is already readable through other bytes.
        while matches!((&descriptor.write).write(&[1]), Err(error) if error.kind() == ErrorKind::Interrupted) {}
    }

    pub(crate) fn hide(&self) {
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

    /// Descriptor.
    ///
    /// # Errors
    /// `ENOSYS` if the bell has no descriptor.
    pub(crate) fn descriptor(&self) -> Result<c_int, Errno> {
        self.descriptor.as_ref().map(|descriptor| descriptor.shown.as_raw_fd()).ok_or(Errno::ENOSYS)
    }
}

#[derive(Debug)]
pub(crate) struct Left {
    /// `None` for a sleep without a limit.
    end: Option<Instant>,
}

impl Left {
    pub(crate) fn milliseconds(number: i32) -> Self {
        let time = u64::try_from(number).ok().map(Duration::from_millis);
        Left { end: time.and_then(|time| Instant::now().checked_add(time)) }
    }
}
