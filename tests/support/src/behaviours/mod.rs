//! Behaviours of every transport: one function each, over any info. `tests/providers/transports`
//! runs them over every transport, `tests/fault_injection` over the software transport with faults.

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

use loom_core::av::Av;
use loom_core::domain::Domain;
use loom_core::soft::Soft;
use loom_core::transport::{Signals, Transport};

use self::messages::{multi, peek, pieces, tagged_multi, tags, truncated, unsignaled};
use self::needs::Behaviour;

/// Returns every behaviour of one thread.
pub fn cases<T: Transport + 'static>() -> Vec<Behaviour<T>> {
    [
        messages::cases(),
        truncated::cases(),
        rma::cases(),
        regions::cases(),
        registered::cases(),
        leases::cases(),
        cached::cases(),
        pieces::cases(),
        multi::cases(),
        tagged_multi::cases(),
        peek::cases(),
        counters::cases(),
        deferred::cases(),
        unsignaled::cases(),
        waiting::cases(),
        futures::cases(),
        groups::cases(),
        sleeping::cases(),
        lifecycle::cases(),
        closing_orders::cases(),
        owned::cases(),
        addresses::cases(),
        tags::cases(),
        atomics::cases(),
        arrivals::cases(),
    ]
    .concat()
}

/// Returns the behaviours that require a domain which threads share.
pub fn threaded_cases<T: Signals + 'static>() -> Vec<Behaviour<T>>
where
    Domain<'static, T>: Send + Sync,
    Av<'static, T>: Send + Sync,
{
    [threads::cases(), sleeping::threaded_cases(), owned::threaded_cases(), signalling::cases()].concat()
}

/// Returns the behaviours of the software transport, of one thread and of several. They are
/// compiled here, once for all test programs.
pub fn soft_cases() -> (Vec<Behaviour<Soft<'static>>>, Vec<Behaviour<Soft<'static>>>) {
    (cases(), threaded_cases())
}

/// Returns the cases of [`soft_cases`] that run under faults.
pub fn soft_cases_under_faults() -> (Vec<Behaviour<Soft<'static>>>, Vec<Behaviour<Soft<'static>>>) {
    let (mut alone, mut threaded) = soft_cases();
    let others: Vec<Behaviour<Soft<'static>>> = [
        deferred::cases(),
        closing_orders::cases(),
        owned::cases(),
        arrivals::cases(),
        owned::threaded_cases(),
        signalling::cases(),
    ]
    .concat();
    for cases in [&mut alone, &mut threaded] {
        cases.retain(|(name, ..)| others.iter().all(|(other, ..)| other != name));
    }
    (alone, threaded)
}
