//! The first serial port of a PC (a 16550 at port 0x3f8), written to without interrupts.

use core::arch::asm;
use core::fmt;

const DATA: u16 = 0x3f8;
const INTERRUPTS: u16 = DATA + 1;
const FIFO: u16 = DATA + 2;
const LINE: u16 = DATA + 3;
const MODEM: u16 = DATA + 4;
const STATUS: u16 = DATA + 5;
/// Bit of [`STATUS`]: the next byte can be written.
const ROOM: u8 = 1 << 5;
/// Maximum number of reads of the status. A byte takes 87 us at 115,200 baud, a read about 1 us.
const PATIENCE: u32 = 1_000_000;

fn set(port: u16, value: u8) {
    // SAFETY: only code that `pvh` started calls this, where no operating system forbids ports. The
    // ports are those of the serial port, which accesses no memory.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack, preserves_flags)) }
}

fn status() -> u8 {
    let value;
    // SAFETY: the port may be used, see `set`. Reading the status has no effect.
    unsafe { asm!("in al, dx", in("dx") STATUS, out("al") value, options(nomem, nostack, preserves_flags)) }
    value
}

/// 115,200 baud, 8 bits, no parity, one stop bit.
pub fn open() {
    const DIVISOR: u8 = 1 << 7;
    const BITS_8: u8 = 3;
    set(INTERRUPTS, 0);
    set(LINE, DIVISOR);
    set(DATA, 1);
    set(INTERRUPTS, 0);
    set(LINE, BITS_8);
    // Switched on, and emptied.
    set(FIFO, 7);
    // The other side may send.
    set(MODEM, 3);
}

/// Writes all of `bytes`. Fails if the port accepts no byte for a second.
pub fn write(bytes: &[u8]) -> fmt::Result {
    for byte in bytes {
        let mut looks = 0..PATIENCE;
        if !looks.any(|_| status() & ROOM != 0) {
            return Err(fmt::Error);
        }
        set(DATA, *byte);
    }
    Ok(())
}
