//! Bell for systems without a way to wake up threads.

use core::ffi::c_int;

use crate::vocabulary::{Errno, WaitObj};

#[derive(Debug)]
pub(in crate::soft) enum Bell {}

impl Bell {
    pub(in crate::soft) const fn new(_: WaitObj) -> Result<Self, Errno> {
        Err(Errno::ENOSYS)
    }

    pub(in crate::soft) const fn ring(&self) {
        match *self {}
    }

    pub(in crate::soft) const fn show(&self) {
        match *self {}
    }

    pub(in crate::soft) const fn hide(&self) {
        match *self {}
    }

    pub(in crate::soft) const fn wait(&self, _: &Left) -> bool {
        match *self {}
    }

    pub(in crate::soft) const fn descriptor(&self) -> Result<c_int, Errno> {
        match *self {}
    }
}

#[derive(Debug)]
pub(in crate::soft) struct Left;

impl Left {
    pub(in crate::soft) const fn milliseconds(_: i32) -> Self {
        Left
    }
}
