//! How long to wait: the core has no clock, so the caller brings one.

/// Says when waiting is over.
///
/// Asked now and then while nothing happens, between two calls of the transport: a call in which a provider itself hangs
/// is not bounded by it. [`Instant`](std::time::Instant) is one with the feature `std`.
///
/// Those of this module do not have the processor pause between two looks: that would take longer than many an operation does. A
/// deadline of the caller's may pause, yield or count, whenever it is asked.
pub trait Deadline {
    /// Whether the time has come.
    fn passed(&mut self) -> bool;
}

/// A deadline of this number of looks: bounds a wait where there is no clock. They follow each other without a pause.
///
/// ```
/// use loom_core::{Deadline, Spins};
///
/// let mut two = Spins(2);
/// assert_eq!([two.passed(), two.passed(), two.passed()], [false, false, true]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Spins(pub u64);

impl Deadline for Spins {
    #[inline]
    fn passed(&mut self) -> bool {
        match self.0.checked_sub(1) {
            Some(left) => {
                self.0 = left;
                false
            }
            None => true,
        }
    }
}

/// No deadline at all: for waits that something else bounds. It spins without a pause.
#[derive(Clone, Copy, Debug)]
pub struct Forever;

impl Deadline for Forever {
    #[inline]
    fn passed(&mut self) -> bool {
        false
    }
}

#[cfg(feature = "std")]
impl Deadline for std::time::Instant {
    #[inline]
    fn passed(&mut self) -> bool {
        std::time::Instant::now() >= *self
    }
}

impl<D: Deadline + ?Sized> Deadline for &mut D {
    #[inline]
    fn passed(&mut self) -> bool {
        (**self).passed()
    }
}
