//! The C objects behind raw ones: for what libfabric has and loom does not wrap.

use super::control::{Av, Domain, Fabric};
use super::counter::Counter;
use super::endpoint::Endpoint;
use super::event_queue::Eq;
use super::queue::Cq;
use super::region::Mr;
use super::sys;

macro_rules! pointers {
    ($($Raw:ident: $fid:ident;)*) => {$(
        impl<L> $Raw<L> {
            #[doc = concat!("The `struct ", stringify!($fid), "`, for calls that loom does not wrap: through its operation tables, with")]
            /// the types of [`sys`].
            ///
            /// What is done with it has to keep to what the objects above rely on: nothing is closed, and what was lent to the
            /// provider stays. It is there as long as this handle is open.
            #[must_use]
            pub const fn as_ptr(&self) -> *mut sys::$fid {
                self.fid().cast().as_ptr()
            }
        }
    )*};
}

pointers! {
    Fabric: fid_fabric;
    Domain: fid_domain;
    Av: fid_av;
    Cq: fid_cq;
    Eq: fid_eq;
    Mr: fid_mr;
    Counter: fid_cntr;
    Endpoint: fid_ep;
}
