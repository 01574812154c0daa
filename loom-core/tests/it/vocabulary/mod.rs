//! Values, flags and numbers of libfabric, and their text.

mod address_sockets;
mod address_text;
mod address_wire;
mod addresses;
mod attributes;
mod capabilities;
mod cm_data;
mod endpoint_options;
mod enumerations;
mod errno;
mod excerpts;
mod memory_flags;
mod operation_flags;
mod orders;
mod values;
mod version;
