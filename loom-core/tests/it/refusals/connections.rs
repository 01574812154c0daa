//! Twins that require a transport with connections, groups, or signals of other threads. They are
//! compiled here over any such transport, and run over libfabric (`tests/connected` and others).

#![allow(dead_code, reason = "what matters is that they compile")]

use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::SendOptions;
use loom_core::endpoint::ThePeer;
use loom_core::endpoint::{Established, MsgEndpoint};
use loom_core::endpoint::{Joined, MulticastGroup};
use loom_core::eq::{ConnectedEvent, ConnectionRequest};
use loom_core::transport::connected::Fid;
use loom_core::transport::{Connected, Multicast, Signals};
use loom_core::vocabulary::WaitObj;

fn connecting_endpoint_sends<T: Connected>(endpoint: MsgEndpoint<'_, T, &'static [u8], Established>) {
    endpoint.send(ThePeer, b"in time").unwrap();
}

fn connected_event_of_another_endpoint(event: ConnectedEvent, other: Fid) -> bool {
    event.endpoint() == other
}

fn request_used_twice<T: Connected>(request: ConnectionRequest<'_, T>) {
    request.reject(b"no").unwrap();
}

fn group_sent_to_before_it_is_joined<T: Multicast>(group: MulticastGroup<'_, T, &'static [u8], Joined>) {
    group.send_with(SendOptions::default(), b"in time").unwrap();
}

fn group_sent_to_after_leaving<T: Multicast>(group: MulticastGroup<'_, T, &'static [u8]>) {
    group.send_with(SendOptions::default(), b"in time").unwrap();
    group.leave().unwrap();
}

fn signaller_outlives_queue<T: Signals>(domain: &Domain<'_, T>) {
    let cq = Cq::<T, ()>::open(domain, CqAttr { wait: WaitObj::FD, ..CqAttr::new(4) }).unwrap();
    let signaller = cq.signaller().unwrap();
    signaller.signal().unwrap();
    drop(cq);
}

pub(crate) const CASES: usize = 6;
