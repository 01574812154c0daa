#![allow(unsafe_code, reason = "promises that descriptors are open")]

use core::ffi::c_int;
use core::task::Waker;
use core::time::Duration;

use super::wait_list::store;
use super::{CounterDriver, CqDriver, Drive, EqDriver};
use crate::buffer::Buffer;
use crate::error::CqError;
use crate::transport::{Connected, Transport};

/// Drivers whose executor may sleep on descriptors, as by `fi_trywait`. An executor repeats these
/// steps:
///
/// 1. It takes [turns](Drive::turn) and polls woken tasks, until a turn finds no events.
/// 2. It begins to wait for all [descriptors](Self::wait_fds), or clears their readiness
///    (edge-triggered).
/// 3. It calls [`may_sleep`](Self::may_sleep), which may run user code and wake tasks. If it
///    returns `false` or a task was woken, the executor returns to step 1.
/// 4. It sleeps until a descriptor is readable or its waker is woken.
///
/// ```
/// use core::{ffi::c_int, task::Waker};
/// use loom_core::{CqError, driver::Sleepable};
///
/// /// Sleeps if no task is ready. `poll` returns once a descriptor is readable or `waker` is woken.
/// fn idle(driver: &impl Sleepable, waker: &Waker, poll: impl FnOnce(&[c_int])) -> Result<(), CqError> {
///     let mut fds = Vec::new();
///     driver.wait_fds(&mut |fd| fds.push(fd))?;
///     if driver.turn(64) == 0 && driver.may_sleep(waker)? {
///         poll(&fds);
///     }
///     Ok(())
/// }
/// # fixture::queue!(network, domain, av, cq);
/// # let driver = loom_core::CqDriver::open(&cq, loom_core::Unclaimed::Drop)?;
/// # // `CqAttr::wait` opens a queue with a descriptor. This one has none.
/// # assert_eq!(idle(&driver, Waker::noop(), |_| {}), Err(CqError::NotOpenedFor));
/// # Ok::<_, loom_core::Error>(())
/// ```
///
/// # Safety
/// The descriptors are open as long as the driver exists, and do not change.
pub unsafe trait Sleepable: Drive {
    /// Calls `each` with every descriptor.
    ///
    /// # Errors
    /// [`CqError::NotOpenedFor`] if a queue was opened without a descriptor.
    #[doc(alias = "FI_GETWAIT")]
    fn wait_fds(&self, each: &mut dyn FnMut(c_int)) -> Result<(), CqError>;

    /// Returns `true` if the executor may sleep now. `waker` is woken when a new wait requires a
    /// turn. The call may wake tasks.
    ///
    /// Returns `false` while a post waits for the provider, or a multi-receive for its pieces,
    /// which no descriptor signals.
    ///
    /// # Errors
    /// [`CqError`]
    #[doc(alias = "fi_trywait")]
    fn may_sleep(&self, waker: &Waker) -> Result<bool, CqError>;

    /// [`may_sleep`](Self::may_sleep) for executors with a timer. Returns the maximum time to
    /// sleep, or `None` if the executor may not.
    ///
    /// Returns 1 ms where `may_sleep` would block for 1 ms (`tcp;ofi_rxm`, `udp;ofi_rxd`).
    fn sleeps_for(&self, waker: &Waker) -> Result<Option<Duration>, CqError> {
        Ok(self.may_sleep(waker)?.then_some(Duration::MAX))
    }
}

/// Time between two polls of a queue that cannot be slept on.
const NAP: Duration = Duration::from_millis(1);

fn shorter(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    Some(one?.min(other?))
}

impl<T: Transport, B: Buffer> CqDriver<'_, T, B> {
    /// `None` if the queue decides.
    fn idles(&self, waker: &Waker) -> Result<Option<bool>, CqError> {
        let inner = &*self.body;
        store(inner.ops().wanted(), waker);
        match inner.failed.get() {
            Some(CqError::PeerEvents) => Ok(Some(true)),
            Some(error) => Err(error),
            None if inner.is_behind() || !inner.has_room_by_events_alone() || inner.draining.get() > 0 => {
                Ok(Some(false))
            }
            None => Ok(None),
        }
    }
}

// SAFETY: the driver is a handle of the queue. The last handle closes the descriptor.
unsafe impl<T: Transport, B: Buffer> Sleepable for CqDriver<'_, T, B> {
    fn wait_fds(&self, each: &mut dyn FnMut(c_int)) -> Result<(), CqError> {
        each(self.cq().wait_fd()?);
        Ok(())
    }

    fn may_sleep(&self, waker: &Waker) -> Result<bool, CqError> {
        match self.idles(waker)? {
            Some(idles) => Ok(idles),
            None => Ok(self.cq().may_sleep_driven()?),
        }
    }

    fn sleeps_for(&self, waker: &Waker) -> Result<Option<Duration>, CqError> {
        let time = if self.cq().naps() { NAP } else { Duration::MAX };
        let may = match self.idles(waker)? {
            Some(idles) => idles,
            None if time == NAP => self.cq().may_nap_driven()?,
            None => self.cq().may_sleep_driven()?,
        };
        Ok(may.then_some(time))
    }
}

// SAFETY: the driver is a handle of the queue. The last handle closes the descriptor.
unsafe impl<T: Connected> Sleepable for EqDriver<'_, T> {
    fn wait_fds(&self, each: &mut dyn FnMut(c_int)) -> Result<(), CqError> {
        each(self.eq().wait_fd()?);
        Ok(())
    }

    fn may_sleep(&self, waker: &Waker) -> Result<bool, CqError> {
        self.store_waker(waker);
        match self.failure() {
            Some(CqError::Unread) => Ok(true),
            Some(error) => Err(error),
            None => Ok(self.eq().may_sleep()?),
        }
    }
}

// SAFETY: the driver is a handle of the counter. The last handle closes the descriptor.
unsafe impl<T: Transport> Sleepable for CounterDriver<'_, T> {
    fn wait_fds(&self, each: &mut dyn FnMut(c_int)) -> Result<(), CqError> {
        each(self.counter().wait_fd()?);
        Ok(())
    }

    fn may_sleep(&self, waker: &Waker) -> Result<bool, CqError> {
        self.store_waker(waker);
        Ok(self.turn(1) == 0 && self.counter().may_sleep()?)
    }

    fn sleeps_for(&self, waker: &Waker) -> Result<Option<Duration>, CqError> {
        self.store_waker(waker);
        if self.turn(1) != 0 {
            return Ok(None);
        }
        if self.counter().naps() {
            return Ok(Some(NAP));
        }
        Ok(self.counter().may_sleep()?.then_some(Duration::MAX))
    }
}

// SAFETY: the borrowed driver is `Sleepable`.
unsafe impl<D: Sleepable + ?Sized> Sleepable for &D {
    fn wait_fds(&self, each: &mut dyn FnMut(c_int)) -> Result<(), CqError> {
        (**self).wait_fds(each)
    }

    fn may_sleep(&self, waker: &Waker) -> Result<bool, CqError> {
        (**self).may_sleep(waker)
    }

    fn sleeps_for(&self, waker: &Waker) -> Result<Option<Duration>, CqError> {
        (**self).sleeps_for(waker)
    }
}

// SAFETY: each driver in it is `Sleepable`.
unsafe impl<D: Sleepable> Sleepable for [D] {
    fn wait_fds(&self, each: &mut dyn FnMut(c_int)) -> Result<(), CqError> {
        self.iter().try_for_each(|driver| driver.wait_fds(each))
    }

    fn may_sleep(&self, waker: &Waker) -> Result<bool, CqError> {
        // Calls every driver, so that each stores the waker.
        self.iter().try_fold(true, |may, driver| Ok(driver.may_sleep(waker)? && may))
    }

    fn sleeps_for(&self, waker: &Waker) -> Result<Option<Duration>, CqError> {
        self.iter().try_fold(Some(Duration::MAX), |time, driver| Ok(shorter(driver.sleeps_for(waker)?, time)))
    }
}

// SAFETY: each driver in it is `Sleepable`.
unsafe impl<D: Sleepable, const N: usize> Sleepable for [D; N] {
    fn wait_fds(&self, each: &mut dyn FnMut(c_int)) -> Result<(), CqError> {
        self.as_slice().wait_fds(each)
    }

    fn may_sleep(&self, waker: &Waker) -> Result<bool, CqError> {
        self.as_slice().may_sleep(waker)
    }

    fn sleeps_for(&self, waker: &Waker) -> Result<Option<Duration>, CqError> {
        self.as_slice().sleeps_for(waker)
    }
}

macro_rules! sleepable_tuples {
    ($(($($name:ident)*))*) => {$(
        // SAFETY: each driver in it is `Sleepable`.
        unsafe impl<$($name: Sleepable),*> Sleepable for ($($name,)*) {
            #[allow(non_snake_case, reason = "values are named like their types")]
            fn wait_fds(&self, each: &mut dyn FnMut(c_int)) -> Result<(), CqError> {
                let ($($name,)*) = self;
                $($name.wait_fds(each)?;)*
                Ok(())
            }

            #[allow(non_snake_case, reason = "values are named like their types")]
            fn may_sleep(&self, waker: &Waker) -> Result<bool, CqError> {
                let ($($name,)*) = self;
                Ok(true $(& $name.may_sleep(waker)?)*)
            }

            #[allow(non_snake_case, reason = "values are named like their types")]
            fn sleeps_for(&self, waker: &Waker) -> Result<Option<Duration>, CqError> {
                let ($($name,)*) = self;
                let mut time = Some(Duration::MAX);
                $(time = shorter($name.sleeps_for(waker)?, time);)*
                Ok(time)
            }
        }
    )*};
}

sleepable_tuples! { (A) (A B) (A B C) (A B C D) }
