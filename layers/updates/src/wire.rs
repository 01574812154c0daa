//! Requests and answers. Both are [`MESSAGE_LEN`] bytes in the byte order of the machine, which
//! peers must share. The first word identifies the version and the byte order.
//!
//! | bytes | request | answer |
//! |---|---|---|
//! | 0 to 3 | [`REQUEST`] | [`ANSWER`] |
//! | 4 to 7 | form, datatype, operation, zero | error number, or zero |
//! | 8 to 11 | number of the client | number of the client |
//! | 12 to 15 | zero | zero |
//! | 16 to 23 | number of the request | number of the request |
//! | 24 to 31 | offset in the window | zero |
//! | 32 to 47 | operand | former value |
//! | 48 to 63 | comparand | zero |

#![allow(unsafe_code, reason = "elements as bytes")]

use loom_core::RangeError;
use loom_core::atomic::{Atomic, Complex, Element, Form};
use loom_core::exposed::Window;
use loom_core::vocabulary::{AtomicOp, Datatype, Errno};

/// Length of a request and of an answer in bytes.
pub const MESSAGE_LEN: usize = 64;

const REQUEST: u32 = 0x4c55_5101;
const ANSWER: u32 = 0x4c55_4101;

/// Value as long as the longest element.
pub(crate) type Value = [u8; 16];

/// Bytes of an element, followed by zeros.
pub(crate) fn to_value<E: Element>(element: E) -> Value {
    const { assert!(size_of::<E>() <= size_of::<Value>(), "no element is longer") };
    let mut value = Value::default();
    // SAFETY: an element is at most as long as `Value`, asserted above, and has no padding.
    unsafe { (&raw mut value).cast::<E>().write_unaligned(element) };
    value
}

pub(crate) fn from_value<E: Element>(value: Value) -> E {
    // SAFETY: an element is at most as long as `Value`, and every bit pattern is valid for it.
    unsafe { (&raw const value).cast::<E>().read_unaligned() }
}

fn part<const N: usize>(message: &[u8; MESSAGE_LEN], at: usize) -> [u8; N] {
    let mut part = [0; N];
    if let Some(bytes) = message.get(at..at + N) {
        part.copy_from_slice(bytes);
    }
    part
}

fn set(message: &mut [u8; MESSAGE_LEN], at: usize, part: &[u8]) {
    if let Some(place) = message.get_mut(at..at + part.len()) {
        place.copy_from_slice(part);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) atomic: Atomic,
    pub(crate) client: u32,
    pub(crate) number: u64,
    pub(crate) offset: u64,
    pub(crate) operand: Value,
    pub(crate) compare: Value,
}

impl Request {
    pub(crate) fn encode(&self) -> [u8; MESSAGE_LEN] {
        let mut message = [0; MESSAGE_LEN];
        let Atomic { form, datatype, op } = self.atomic;
        let byte = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
        set(&mut message, 0, &REQUEST.to_ne_bytes());
        set(&mut message, 4, &[u8::from(form == Form::Compare), byte(datatype.as_raw()), byte(op.as_raw())]);
        set(&mut message, 8, &self.client.to_ne_bytes());
        set(&mut message, 16, &self.number.to_ne_bytes());
        set(&mut message, 24, &self.offset.to_ne_bytes());
        set(&mut message, 32, &self.operand);
        set(&mut message, 48, &self.compare);
        message
    }

    pub(crate) fn decode(message: &[u8; MESSAGE_LEN]) -> Option<Self> {
        let [form, datatype, op, zero] = part(message, 4);
        let form = match form {
            0 => Form::Fetch,
            1 => Form::Compare,
            _ => return None,
        };
        let known = u32::from_ne_bytes(part(message, 0)) == REQUEST && zero == 0 && part(message, 12) == [0; 4];
        known.then(|| Request {
            atomic: Atomic { form, datatype: Datatype::from_raw(datatype.into()), op: AtomicOp::from_raw(op.into()) },
            client: u32::from_ne_bytes(part(message, 8)),
            number: u64::from_ne_bytes(part(message, 16)),
            offset: u64::from_ne_bytes(part(message, 24)),
            operand: part(message, 32),
            compare: part(message, 48),
        })
    }

    pub(crate) fn apply(&self, window: Window<'_>) -> Result<Value, Errno> {
        match self.atomic.datatype {
            Datatype::INT8 => apply::<i8>(self, window),
            Datatype::UINT8 => apply::<u8>(self, window),
            Datatype::INT16 => apply::<i16>(self, window),
            Datatype::UINT16 => apply::<u16>(self, window),
            Datatype::INT32 => apply::<i32>(self, window),
            Datatype::UINT32 => apply::<u32>(self, window),
            Datatype::INT64 => apply::<i64>(self, window),
            Datatype::UINT64 => apply::<u64>(self, window),
            Datatype::INT128 => apply::<i128>(self, window),
            Datatype::UINT128 => apply::<u128>(self, window),
            Datatype::FLOAT => apply::<f32>(self, window),
            Datatype::DOUBLE => apply::<f64>(self, window),
            Datatype::FLOAT_COMPLEX => apply::<Complex<f32>>(self, window),
            Datatype::DOUBLE_COMPLEX => apply::<Complex<f64>>(self, window),
            _ => Err(Errno::EOPNOTSUPP),
        }
    }
}

fn apply<E: Element>(request: &Request, window: Window<'_>) -> Result<Value, Errno> {
    let Atomic { form, op, .. } = request.atomic;
    let compares = op >= AtomicOp::CSWAP;
    if compares != (form == Form::Compare) {
        return Err(Errno::EOPNOTSUPP);
    }
    let offset = usize::try_from(request.offset).map_err(|_| Errno::EFAULT)?;
    let element = window.element::<E>(offset).map_err(|error| match error {
        RangeError::OutOfWindow => Errno::EFAULT,
        RangeError::Misaligned => Errno::EINVAL,
        RangeError::ReadOnly => Errno::EACCES,
        _ => Errno::EOPNOTSUPP,
    })?;
    let before = element.change(op, from_value::<E>(request.operand), from_value::<E>(request.compare));
    before.map(to_value).ok_or(Errno::EOPNOTSUPP)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) client: u32,
    pub(crate) number: u64,
    pub(crate) result: Result<Value, Errno>,
}

impl Answer {
    pub(crate) fn encode(&self) -> [u8; MESSAGE_LEN] {
        let mut message = [0; MESSAGE_LEN];
        set(&mut message, 0, &ANSWER.to_ne_bytes());
        set(&mut message, 8, &self.client.to_ne_bytes());
        set(&mut message, 16, &self.number.to_ne_bytes());
        match self.result {
            Ok(value) => set(&mut message, 32, &value),
            Err(errno) => set(&mut message, 4, &errno.as_raw().to_ne_bytes()),
        }
        message
    }

    pub(crate) fn decode(message: &[u8; MESSAGE_LEN]) -> Option<Self> {
        let errno = Errno::from_raw(i32::from_ne_bytes(part(message, 4)));
        let known = u32::from_ne_bytes(part(message, 0)) == ANSWER;
        known.then(|| Answer {
            client: u32::from_ne_bytes(part(message, 8)),
            number: u64::from_ne_bytes(part(message, 16)),
            result: if errno.as_raw() == 0 { Ok(part(message, 32)) } else { Err(errno) },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use loom_core::atomic::{CompareOp, Complex, FetchOp, Operation};

    fn request(atomic: Atomic) -> Request {
        Request {
            atomic,
            client: 7,
            number: 0x0102_0304_0506_0708,
            offset: 24,
            operand: to_value(Complex { re: 1.5_f64, im: -2.0 }),
            compare: to_value(u128::MAX / 3),
        }
    }

    #[test]
    fn messages_decode_to_their_fields() {
        for atomic in [FetchOp::<i8>::MIN.atomic(), CompareOp::<Complex<f64>>::CSWAP_NE.atomic()] {
            let request = request(atomic);
            assert_eq!(Request::decode(&request.encode()), Some(request));
            assert_eq!(Answer::decode(&request.encode()), None);
        }
        for result in [Ok(to_value(5_u16)), Err(Errno::EFAULT)] {
            let answer = Answer { client: 3, number: 9, result };
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
            assert_eq!(Request::decode(&answer.encode()), None);
        }
        assert_eq!(from_value::<u16>(to_value(0xabcd_u16)), 0xabcd);
    }

    #[test]
    fn messages_of_other_versions_or_byte_orders_are_not_decoded() {
        let message = request(FetchOp::<u64>::SUM.atomic()).encode();
        for (at, byte) in [(0, message[3]), (3, 0), (4, 2), (7, 1), (12, 1), (15, 255)] {
            let mut other = message;
            other[at] = byte;
            assert_eq!(Request::decode(&other), None, "byte {at}");
        }
    }
}
