//! Stand-ins without the feature `tls`. They have no value.

use core::net::IpAddr;

use rustix::fd::BorrowedFd;
use rustix::io;

use crate::memory::Gathered;

#[derive(Clone, Debug)]
pub(crate) enum Tls {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault(());

#[derive(Debug)]
pub(crate) enum Session {}

pub(crate) struct Records(());

impl Records {
    pub(crate) const EMPTY: Self = Records(());
}

impl Fault {
    pub(crate) const LOCAL: Self = Fault(());

    pub(crate) const fn code(self) -> i32 {
        0
    }

    pub(crate) const fn text(_: i32) -> Option<&'static str> {
        None
    }
}

impl Session {
    pub(crate) fn client(tls: &Tls, _: IpAddr) -> Result<Self, Fault> {
        match *tls {}
    }

    pub(crate) fn server(tls: &Tls, _: IpAddr) -> Result<Self, Fault> {
        match *tls {}
    }

    pub(crate) fn is_open(&self) -> bool {
        match *self {}
    }

    pub(crate) fn has_output(&self) -> bool {
        match *self {}
    }

    pub(crate) fn receive(&mut self, _: &mut Records, _: BorrowedFd<'_>) -> io::Result<Option<(usize, bool)>> {
        match *self {}
    }

    pub(crate) fn advance(&mut self, _: &mut Records) -> Result<bool, Fault> {
        match *self {}
    }

    pub(crate) fn plaintext<'r>(&mut self, _: &'r mut Records) -> Result<Option<&'r [u8]>, Fault> {
        match *self {}
    }

    pub(crate) fn consume(&mut self, _: usize) {
        match *self {}
    }

    pub(crate) fn send(&mut self, _: &mut Records, _: BorrowedFd<'_>, _: Gathered<'_>) -> io::Result<(u64, bool)> {
        match *self {}
    }

    pub(crate) fn flush(&mut self, _: &Records, _: BorrowedFd<'_>) -> io::Result<bool> {
        match *self {}
    }
}
