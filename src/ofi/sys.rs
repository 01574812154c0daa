//! libfabric's C API, as bindgen reads it from the installed headers: raw, and different from version to version.
//!
//! Constants of C enumerations stand here by their own names (`FI_EP_RDM`); functions that are static inline in C are
//! not here. Nothing here is checked, and nothing of it is covered by the versioning of this crate.

#![allow(
    unsafe_code,
    missing_docs,
    unreachable_pub,
    unnameable_types,
    missing_debug_implementations,
    unsafe_op_in_unsafe_fn,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    clippy::all,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::missing_safety_doc,
    clippy::multiple_unsafe_ops_per_block,
    clippy::too_long_first_doc_paragraph,
    clippy::undocumented_unsafe_blocks,
    reason = "generated code"
)]

include!(concat!(env!("OUT_DIR"), "/libfabric.rs"));
