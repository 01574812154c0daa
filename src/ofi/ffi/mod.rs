//! Calls into C, with its pointers and strings.

pub(crate) mod call;
pub(crate) mod pointers;
pub(crate) mod text;
