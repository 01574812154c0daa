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
pub mod needs;
pub mod owned;
pub mod pair;
pub mod regions;
pub mod registered;
pub mod rma;
pub mod signalling;
pub mod sleeping;
pub mod threads;
pub mod waiting;
