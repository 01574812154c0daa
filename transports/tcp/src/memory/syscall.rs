//! System calls that `rustix` lacks: a socket option, and on memory that peers change, or that is
//! not initialised.

use core::arch::asm;
use core::ptr::{null, null_mut};

use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;

/// `struct iovec`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct IoVec {
    pub(super) base: *mut u8,
    pub(super) len: usize,
}

/// `struct msghdr` of the kernel.
#[derive(Debug)]
#[repr(C)]
struct Message {
    name: *const u8,
    name_len: u32,
    ranges: *const IoVec,
    range_count: usize,
    control: *mut u8,
    control_len: usize,
    flags: u32,
}

#[cfg(target_arch = "x86_64")]
mod numbers {
    pub(super) const SENDTO: usize = 44;
    pub(super) const SENDMSG: usize = 46;
    pub(super) const RECVMSG: usize = 47;
    pub(super) const SETSOCKOPT: usize = 54;
}
#[cfg(target_arch = "aarch64")]
mod numbers {
    pub(super) const SENDTO: usize = 206;
    pub(super) const SENDMSG: usize = 211;
    pub(super) const SETSOCKOPT: usize = 208;
    pub(super) const RECVMSG: usize = 212;
}

/// `MSG_DONTWAIT` and `MSG_NOSIGNAL`
const FLAGS: usize = 0x40 | 0x4000;

/// # Safety
/// The requirements of the system call with this number.
#[inline]
unsafe fn call(number: usize, [first, second, third, fourth, fifth]: [usize; 5]) -> Result<usize, Errno> {
    let result: isize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the registers of a system call; the kernel changes `rcx` and `r11`. The caller
    // guarantees the arguments.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            in("r8") fifth,
            in("r9") 0,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the registers of a system call. The caller guarantees the arguments.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") first => result,
            in("x1") second,
            in("x2") third,
            in("x3") fourth,
            in("x4") fifth,
            in("x5") 0,
            options(nostack),
        );
    }
    match usize::try_from(result) {
        Ok(result) => Ok(result),
        Err(_) => Err(Errno::from_raw_os_error(i32::try_from(-result).unwrap_or(i32::MAX))),
    }
}

/// Message without a name and control data.
const fn message(ranges: &[IoVec]) -> Message {
    Message {
        name: null(),
        name_len: 0,
        ranges: ranges.as_ptr(),
        range_count: ranges.len(),
        control: null_mut(),
        control_len: 0,
        flags: 0,
    }
}

/// Receives into ranges, in order, without waiting.
///
/// # Safety
/// The ranges are valid for writes of the kernel.
pub(super) unsafe fn receive(fd: BorrowedFd<'_>, ranges: &[IoVec]) -> Result<usize, Errno> {
    let fd = fd.as_raw_fd().cast_unsigned() as usize;
    let mut message = message(ranges);
    // SAFETY: the descriptor is open, and the caller guarantees the ranges.
    unsafe { call(numbers::RECVMSG, [fd, (&raw mut message).expose_provenance(), FLAGS, 0, 0]) }
}

/// Sends ranges, in order, without waiting and without a signal.
///
/// # Safety
/// The ranges are valid for reads of the kernel.
pub(super) unsafe fn send(fd: BorrowedFd<'_>, ranges: &[IoVec]) -> Result<usize, Errno> {
    let fd = fd.as_raw_fd().cast_unsigned() as usize;
    if let [range] = ranges {
        // SAFETY: the descriptor is open, and the caller guarantees the range.
        return unsafe { call(numbers::SENDTO, [fd, range.base.expose_provenance(), range.len, FLAGS, 0]) };
    }
    let message = message(ranges);
    // SAFETY: the descriptor is open, and the caller guarantees the ranges.
    unsafe { call(numbers::SENDMSG, [fd, (&raw const message).expose_provenance(), FLAGS, 0, 0]) }
}

/// Lets `connect` choose the port, so that connections to different peers may share it. Since Linux
/// 4.2.
pub(crate) fn set_bind_address_no_port(fd: BorrowedFd<'_>) -> Result<(), Errno> {
    const IPPROTO_IP: usize = 0;
    const IP_BIND_ADDRESS_NO_PORT: usize = 24;
    let fd = fd.as_raw_fd().cast_unsigned() as usize;
    let on = 1_i32;
    let value = (&raw const on).expose_provenance();
    // SAFETY: the descriptor is open, and the kernel reads the value, which is that long.
    unsafe { call(numbers::SETSOCKOPT, [fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, value, size_of::<i32>()]) }.map(drop)
}
