//! [`OnDrop`]: a function for the case that user code unwinds.

/// Runs its function when dropped. Forget it where nothing has unwound.
pub(crate) struct OnDrop<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}
