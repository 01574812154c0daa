//! Options of endpoints: `fi_getopt`, `fi_setopt`.

#![allow(unsafe_code, reason = "calls libfabric")]

use core::ffi::{c_int, c_void};

use loom_core::vocabulary::{Errno, OptionValue};

use super::Endpoint;
use crate::ofi::ffi::call::{done, entry};
use crate::ofi::raw::Raw;
use crate::ofi::sys;

type GetOpt = unsafe extern "C" fn(sys::fid_t, c_int, c_int, *mut c_void, *mut usize) -> c_int;

#[repr(C, align(8))]
struct OptionBytes([u8; 8]);

impl OptionBytes {
    fn of(value: OptionValue) -> (Self, usize) {
        let mut room = OptionBytes([0; 8]);
        let mut put = |bytes: &[u8]| {
            room.0.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            bytes.len()
        };
        let len = match value {
            OptionValue::Size(size) => put(&size.to_ne_bytes()),
            OptionValue::Bool(set) => put(&[set.into()]),
            OptionValue::Int(number) => put(&number.to_ne_bytes()),
        };
        (room, len)
    }

    fn value(&self, kind: OptionValue) -> OptionValue {
        let [a, b, c, d, ..] = self.0;
        match kind {
            OptionValue::Size(_) => OptionValue::Size(usize::from_ne_bytes(self.0)),
            OptionValue::Bool(_) => OptionValue::Bool(a != 0),
            OptionValue::Int(_) => OptionValue::Int(i32::from_ne_bytes([a, b, c, d])),
        }
    }
}

pub(crate) unsafe fn get(
    fid: Raw<sys::fid>,
    getopt: GetOpt,
    option: u32,
    kind: OptionValue,
) -> Result<OptionValue, Errno> {
    let (mut room, expected) = OptionBytes::of(kind);
    let mut len = expected;
    let level = sys::FI_OPT_ENDPOINT.cast_signed();
    // SAFETY: open (H1), and the value has room.
    done(unsafe { getopt(fid.as_ptr(), level, option.cast_signed(), (&raw mut room).cast(), &raw mut len) })?;
    if len == expected { Ok(room.value(kind)) } else { Err(Errno::EOTHER) }
}

pub(crate) unsafe fn endpoint_option<L>(
    endpoint: &Endpoint<L>,
    option: u32,
    kind: OptionValue,
) -> Result<OptionValue, Errno> {
    let raw = endpoint.raw();
    let getopt = entry!(raw, ops => getopt)?;
    // SAFETY: open (H1).
    unsafe { get(raw.cast(), getopt, option, kind) }
}

pub(crate) unsafe fn endpoint_set_option<L>(
    endpoint: &Endpoint<L>,
    option: u32,
    value: OptionValue,
) -> Result<(), Errno> {
    let raw = endpoint.raw();
    let setopt = entry!(raw, ops => setopt)?;
    let (room, len) = OptionBytes::of(value);
    let level = sys::FI_OPT_ENDPOINT.cast_signed();
    // SAFETY: open (H1), and the value is read in the call.
    done(unsafe { setopt(raw.cast().as_ptr(), level, option.cast_signed(), (&raw const room).cast(), len) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_survives_its_way_through_c() {
        for value in [OptionValue::Size(usize::MAX - 1), OptionValue::Bool(true), OptionValue::Int(-7)] {
            let (room, len) = OptionBytes::of(value);
            assert_eq!((room.value(value), len <= 8), (value, true));
        }
    }
}
