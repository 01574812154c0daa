//! Process of Linux: the entry point and two system calls.

use core::arch::{asm, naked_asm};
use core::fmt;

use crate::world::World;

/// Entry point. The stack pointer is a multiple of 16, and the stack has no return address.
///
/// # Safety
/// Only the kernel calls it.
// SAFETY: the program is linked without start files, so no other object defines the symbol.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn _start() -> ! {
    naked_asm!(
        "xor ebp, ebp", // the outermost frame
        "and rsp, -16", // as a caller has it before `call`
        "call {main}",
        "ud2",
        main = sym main,
    )
}

extern "C" fn main() -> ! {
    World::Linux.begin()
}

pub fn exit(code: u8) -> ! {
    const SYS_EXIT_GROUP: u64 = 231;
    // SAFETY: the call has no arguments that point anywhere, and does not return.
    unsafe { asm!("syscall", in("rax") SYS_EXIT_GROUP, in("rdi") u64::from(code), options(noreturn, nostack)) }
}

pub fn write(descriptor: i32, bytes: &[u8]) -> fmt::Result {
    const SYS_WRITE: isize = 1;
    const EINTR: isize = 4;
    let mut rest = bytes;
    while !rest.is_empty() {
        let mut result = SYS_WRITE;
        // SAFETY: the kernel reads `rest` and writes no memory of this program. `syscall` changes
        // rcx and r11.
        unsafe {
            asm!(
                "syscall",
                inout("rax") result,
                in("rdi") descriptor,
                in("rsi") rest.as_ptr(),
                in("rdx") rest.len(),
                out("rcx") _,
                out("r11") _,
                options(nostack, readonly),
            );
        }
        match usize::try_from(result) {
            Ok(written) => rest = rest.get(written..).ok_or(fmt::Error)?,
            Err(_) if result == -EINTR => {}
            Err(_) => return Err(fmt::Error),
        }
    }
    Ok(())
}
