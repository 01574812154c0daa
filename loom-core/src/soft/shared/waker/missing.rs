use core::ffi::c_int;

use crate::vocabulary::{Errno, WaitObj};

#[derive(Debug)]
pub(crate) enum Bell {}

impl Bell {
    pub(crate) const fn new(_: WaitObj) -> Result<Self, Errno> {
        Err(Errno::ENOSYS)
    }

    pub(crate) const fn ring(&self) {
        match *self {}
    }

    pub(crate) const fn show(&self) {
        match *self {}
    }

    pub(crate) const fn hide(&self) {
        match *self {}
    }

    pub(crate) const fn wait(&self, _: &Left) -> bool {
        match *self {}
    }

    pub(crate) const fn descriptor(&self) -> Result<c_int, Errno> {
        match *self {}
    }
}

#[derive(Debug)]
pub(crate) struct Left;

impl Left {
    pub(crate) const fn milliseconds(_: i32) -> Self {
        Left
    }
}
