//! Options that an endpoint is to be opened with, and those of one that is open.

#![allow(unsafe_code, reason = "asks an open raw endpoint")]

use heapless::Vec;

use crate::buffer::Buffer;
use crate::error::OpenError;
use crate::objects::port::Port;
use crate::transport::Transport;
use crate::vocabulary::{EndpointOption, Errno, OptionType, OptionValue};

/// Options to set between opening and enabling.
#[derive(Debug, Default)]
pub(crate) struct Options {
    list: Vec<(u32, OptionValue), 8>,
    /// One cannot be set, or there were too many.
    wrong: bool,
}

impl Options {
    pub(crate) const fn none() -> Self {
        Options { list: Vec::new(), wrong: false }
    }

    pub(crate) fn set<V: OptionType>(&mut self, option: EndpointOption<V>, value: V) {
        self.wrong |= !is_sane(option, value) || self.list.push((option.as_raw(), value.into())).is_err();
    }

    /// For the transport.
    pub(crate) fn raw(&self) -> Result<&[(u32, OptionValue)], OpenError> {
        if self.wrong { Err(OpenError::Errno(Errno::EINVAL)) } else { Ok(&self.list) }
    }
}

/// Whether an option can be set to this. Providers go on with multi-receives of which nothing is left, if that is not too
/// little.
fn is_sane<V: OptionType>(option: EndpointOption<V>, value: V) -> bool {
    let nothing_left =
        option.as_raw() == EndpointOption::MIN_MULTI_RECV.as_raw() && value.into() == OptionValue::Size(0);
    option.is_settable() && !nothing_left
}

impl<T: Transport, B: Buffer> Port<'_, '_, T, B> {
    /// `fi_getopt`
    pub(crate) fn option<V: OptionType>(&self, option: EndpointOption<V>) -> Result<V, Errno> {
        // SAFETY: the endpoint is open.
        let value = unsafe { T::endpoint_option(self.raw(), option.as_raw(), V::ANY.into()) }?;
        V::of(value).ok_or(Errno::EOTHER)
    }

    /// `fi_setopt`
    pub(crate) fn set_option<V: OptionType>(&self, option: EndpointOption<V>, value: V) -> Result<(), Errno> {
        if !is_sane(option, value) {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the endpoint is open.
        unsafe { T::endpoint_set_option(self.raw(), option.as_raw(), value.into()) }
    }
}
