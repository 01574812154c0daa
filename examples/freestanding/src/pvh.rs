//! Entry point of loaders of PVH images, without an operating system, and the exit.
//!
//! `pvh.s` leaves 32-bit protected mode, and keeps these rules, on which all other code relies:
//!
//! 1. Every address of the image is the physical address at which it lies: the first GiB is mapped
//!    onto itself, readable, writable and executable. The image is linked below it, or its 32-bit
//!    addresses would not link.
//! 2. The SSE registers may be used (`CR0.EM` is clear, `CR4.OSFXSR` is set): the target's code
//!    uses them everywhere.
//! 3. Interrupts stay off. Only the owner of the stack writes below the stack pointer, so the red
//!    zone holds.
//! 4. The table of exceptions is empty: an exception shuts the processor down. An emulator then
//!    ends with another code than that of [`exit`].
//! 5. The stack is 1 MiB of the image's zeroed data, and its top is a multiple of 16 before `call`.
//! 6. One processor runs. The others wait for an interrupt that is never sent.

use core::arch::{asm, global_asm};

use crate::serial;
use crate::world::World;

global_asm!(include_str!("pvh.s"), main = sym main, options(att_syntax));

/// Called once, from `pvh.s`, in 64-bit mode.
extern "C" fn main() -> ! {
    serial::open();
    World::Machine.begin()
}

/// Ends a virtual machine that has the device `isa-debug-exit` at port 0xf4: QEMU then exits with
/// `(16 + code) * 2 + 1`. Any other machine halts.
pub fn exit(code: u8) -> ! {
    // SAFETY: the instructions access no memory. Writes to a port without a device are ignored.
    // Interrupts are off (rule 3), so the processor stays halted.
    unsafe {
        asm!(
            "out dx, eax",
            "2:",
            "cli",
            "hlt",
            "jmp 2b",
            in("dx") 0xf4_u16,
            in("eax") 16 + u32::from(code.min(111)), // more would not fit into an exit status
            options(noreturn, nostack, nomem),
        )
    }
}
