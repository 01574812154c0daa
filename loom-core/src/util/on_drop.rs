/// Runs its function when dropped. Forget it where nothing has unwound.
pub(crate) struct OnDrop<F: FnMut()>(pub(crate) F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Calls `each` for every item, also if user code unwinds for one. A second unwind
/// aborts.
pub(crate) fn for_each<I: Iterator>(items: I, each: impl FnMut(I::Item)) {
    struct Rest<I: Iterator, F: FnMut(I::Item)>(I, F);

    impl<I: Iterator, F: FnMut(I::Item)> Rest<I, F> {
        fn take_all(&mut self) {
            for item in self.0.by_ref() {
                (self.1)(item);
            }
        }
    }

    impl<I: Iterator, F: FnMut(I::Item)> Drop for Rest<I, F> {
        fn drop(&mut self) {
            self.take_all();
        }
    }

    Rest(items, each).take_all();
}
