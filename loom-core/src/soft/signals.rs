#![allow(unsafe_code, reason = "implements the unsafe trait `Signals`")]

use core::marker::PhantomData;
use core::ptr::NonNull;

use super::handles::SoftCq;
use super::shared::sleeper::Sleeper;
use super::transport::Soft;
use crate::transport::Signals;
use crate::vocabulary::Errno;

/// Queue that other threads can signal.
#[derive(Debug)]
pub struct SoftSignal<'n> {
    sleeper: Option<NonNull<Sleeper>>,
    memory: PhantomData<&'n Sleeper>,
}

// SAFETY: a sleeper is `Sync`, and is not dropped through this.
unsafe impl Send for SoftSignal<'_> {}
// SAFETY: a sleeper is `Sync`, and is not dropped through this.
unsafe impl Sync for SoftSignal<'_> {}

const _: () = {
    const fn is_sync<T: Sync>() {}
    is_sync::<Sleeper>();
};

// SAFETY: see the implementation of `Transport`. P17: a sleeper is `Sync`.
unsafe impl<'n> Signals for Soft<'n> {
    type Signal = SoftSignal<'n>;

    unsafe fn cq_signal_of(cq: &SoftCq<'n>) -> SoftSignal<'n> {
        SoftSignal { sleeper: cq.queue().sleeper().map(NonNull::from_ref), memory: PhantomData }
    }

    unsafe fn cq_signal(signal: &SoftSignal<'n>) -> Result<(), Errno> {
        let sleeper = signal.sleeper.ok_or(Errno::ENOSYS)?;
        // SAFETY: the caller keeps the queue, and so its sleeper, open until this returns.
        unsafe { sleeper.as_ref() }.signal();
        Ok(())
    }
}
