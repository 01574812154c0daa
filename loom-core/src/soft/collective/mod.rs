#![allow(unsafe_code, reason = "uses memory that was lent, and implements the unsafe trait `Collectives`")]

pub(crate) mod membership;
pub(crate) mod run;

use super::collective::membership::{COLLECTIVE, break_off, join, leave, notify};
use super::collective::run::{Calls, run};
use super::delivery::send::lose;
use super::handles::SoftEndpoint;
use super::network::endpoint_state::begin_context;
use super::network::group::{Args, Member, ROUNDS, Usable};
use super::transport::Soft;
use crate::buffer::Lent;
use crate::collective::Collective;
use crate::transport::{CollectiveAttr, CollectiveCall, Collectives, Context, Refusal};
use crate::vocabulary::{Access, Errno, FabricAddr};

/// Raw handle of a collective group: the membership of an endpoint.
#[derive(Debug)]
pub struct SoftMembership {
    number: u32,
}

struct Round<'g> {
    members: &'g [Member],
    round: u32,
}

impl Calls for Round<'_> {
    fn size(&self) -> usize {
        self.members.len()
    }

    fn args(&self, rank: usize) -> Args {
        self.members[rank].call(self.round).args()
    }
}

impl SoftEndpoint<'_> {
    fn run_round(&self, number: u32, round: u32) {
        let at = self.net.group_of(number);
        let (group, members) = (self.net.group(at), self.net.members_of(at));
        if !group.begin(round) {
            return;
        }
        // SAFETY: lent memory stays until the event (L1) and has the length in K2. It is this
        // thread's: every member has called, completions are not reported, and members do not take
        // memory back while the group is running.
        let result = unsafe { run(&Round { members, round }) };
        for member in members {
            member.call(round).finish(result);
        }
        notify(&self.net, at);
        // Last: leaving members wait for this, and the last of them frees the group's slot.
        group.end();
    }
}

// SAFETY: `soft/transport.rs` lists how the other promises are kept.
// - P18: `membership::leave_all` breaks the endpoint's groups. This waits for a running operation,
//   and no other begins.
// - P19: both functions admit every collective.
unsafe impl<'n> Collectives for Soft<'n> {
    type CollectiveGroup = SoftMembership;

    unsafe fn query_collective(domain: &Self::Domain, _: Collective) -> Result<CollectiveAttr, Errno> {
        Ok(CollectiveAttr { max_members: domain.net.attr.endpoints.into() })
    }

    unsafe fn join_collective(
        endpoint: &Self::Endpoint,
        members: impl Iterator<Item = FabricAddr> + Clone,
    ) -> Result<SoftMembership, Errno> {
        Ok(SoftMembership { number: join(&endpoint.net, endpoint.port(), &members)? })
    }

    unsafe fn collective_joined(endpoint: &Self::Endpoint, group: &SoftMembership) -> Result<bool, Errno> {
        if endpoint.port().own().faults().dead.get() {
            return Err(Errno::ESHUTDOWN);
        }
        match endpoint.net.group(endpoint.net.group_of(group.number)).usable() {
            Usable::NotYet => Ok(false),
            Usable::Yes => Ok(true),
            Usable::NoMore => Err(Errno::ECONNRESET),
        }
    }

    unsafe fn admits_collective(
        endpoint: &Self::Endpoint,
        _: &SoftMembership,
        _: Collective,
        _: usize,
    ) -> Result<CollectiveAttr, Errno> {
        Ok(CollectiveAttr { max_members: endpoint.net.attr.endpoints.into() })
    }

    unsafe fn leave_collective(endpoint: &Self::Endpoint, group: &SoftMembership) {
        leave(&endpoint.net, endpoint.port(), group.number);
    }

    unsafe fn collective(
        endpoint: &Self::Endpoint,
        group: &SoftMembership,
        call: &CollectiveCall,
        operands: &Lent,
        results: &Lent,
        context: Context,
    ) -> Result<(), Refusal> {
        let (net, own, number) = (&endpoint.net, endpoint.port().own(), group.number);
        if endpoint.extra_checks {
            endpoint.refuse_or_kill()?;
            endpoint.lies_in_its_region(operands, Access::WRITE).map_err(Refusal::Errno)?;
            endpoint.lies_in_its_region(results, Access::READ).map_err(Refusal::Errno)?;
            // SAFETY: the context has the memory that the domain requires (L2).
            unsafe { begin_context(own.modes.get(), context) };
        }
        match net.group(net.group_of(number)).usable() {
            Usable::NotYet => return Err(Refusal::Again),
            Usable::Yes => {}
            Usable::NoMore => return Err(Refusal::Errno(Errno::ECONNRESET)),
        }
        if endpoint.extra_checks
            && let Some(lost) = lose(own, Some(context.addr()), COLLECTIVE)
        {
            if lost.is_ok() {
                break_off(net, number);
            }
            return lost;
        }
        let member = net.member(number);
        let round = member.made.get();
        if !member.call(round).is_idle() || !own.tx().reserve() {
            return Err(Refusal::Again);
        }
        let range = |lent: &Lent| (lent.ptr.as_ptr(), lent.len);
        let args =
            Args { operation: *call, operands: range(operands), results: range(results), context: context.addr() };
        member.call(round).make(args);
        member.made.set(round.wrapping_add(1));
        if net.group(net.group_of(number)).arrive(round) {
            endpoint.run_round(number, round);
        }
        Ok(())
    }
}

const _: () = assert!(ROUNDS.is_power_of_two(), "rounds are counted modulo 2^32");
