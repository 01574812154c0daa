//! What every transport has to show: one function for each behaviour, over whatever an info describes. `tests/providers/transports` runs them over every
//! transport, `tests/fault_injection` over the software transport while things go wrong.

pub mod addresses;
pub mod arrivals;
pub mod atomics;
pub mod cached;
pub mod closing_orders;
pub mod counters;
pub mod deferred;
pub mod futures;
pub mod groups;
pub mod leases;
pub mod lifecycle;
pub mod messages;
pub mod multi;
pub mod needs;
pub mod owned;
pub mod pair;
pub mod peek;
pub mod pieces;
pub mod regions;
pub mod registered;
pub mod rma;
pub mod signalling;
pub mod sleeping;
pub mod tagged_multi;
pub mod tags;
pub mod threads;
pub mod truncated;
pub mod unsignaled;
pub mod waiting;
