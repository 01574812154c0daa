pub(crate) mod call;
pub(crate) mod pointers;
pub(crate) mod text;
