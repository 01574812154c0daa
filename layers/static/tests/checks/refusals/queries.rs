use loom_core::MsgEndpoint;
use loom_core::allocator_api2::alloc::Global;
use loom_core::atomic::FetchOp;
use loom_core::av::Av;
use loom_core::cq::Cq;
use loom_core::domain::Domain;
use loom_core::endpoint::Granted;
use loom_core::endpoint::Source;
use loom_core::engine::address_table::AddressSet;
use loom_core::engine::peer_table::Peer;
use loom_core::info::Hints;
use loom_core::mr::RemoteRegion;
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::transport::Connected;
use loom_core::vocabulary::{Caps, Tag};
use loom_static::OnlyEndpoint;
use loom_static::protocol::{Atomics, Inject, MsgSend, RmaRead, RmaWrite, TaggedSend};
use loom_static::query::{
    AtomicOps, CollectiveOps, Injects, Messages, Msg, MultiRecvs, Query, Rdm, Reads, Tagged, TaggedMultiRecvs, Writes,
};

twins! {
    fn tagged_send_that_the_query_lacks() {
        type Wanted = (Messages, Rdm, Tagged);

        fn post(endpoint: &mut OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, peer: Peer) {
            endpoint.tagged_send(peer, Tag(7), vec![0; 8]).unwrap();
        }

        let _ = post;
    }

    fn send_that_the_query_lacks() {
        type Wanted = (Messages, Rdm, Tagged);

        fn post(endpoint: &mut OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, peer: Peer) {
            endpoint.send(peer, vec![0; 8]).unwrap();
        }

        let _ = post;
    }

    fn read_that_the_query_lacks() {
        type Wanted = (Rdm, Reads, Writes);

        fn post(endpoint: &mut OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, peer: Peer, region: &RemoteRegion) {
            endpoint.read(peer, region, 0, vec![0; 8]).unwrap();
        }

        let _ = post;
    }

    fn write_that_the_query_lacks() {
        type Wanted = (Rdm, Reads, Writes);

        fn post(endpoint: &mut OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, peer: Peer, region: &RemoteRegion) {
            endpoint.write(peer, region, 0, vec![0; 8]).unwrap();
        }

        let _ = post;
    }

    fn atomic_that_the_query_lacks() {
        type Wanted = (AtomicOps, Messages, Rdm);

        fn post(endpoint: &mut OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, peer: Peer, region: &RemoteRegion, add: Granted<FetchOp<u64>>) {
            endpoint.fetch_value(peer, region, 0, add, 1).unwrap();
        }

        let _ = post;
    }

    fn inject_that_the_query_lacks() {
        type Wanted = (Injects<8>, Messages, Rdm);

        fn post(endpoint: &mut OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, peer: Peer) {
            endpoint.inject(peer, b"copied").unwrap();
        }

        let _ = post;
    }

    fn multi_recv_that_the_query_lacks() {
        type Wanted = (Messages, MultiRecvs, Rdm);

        fn post(endpoint: &mut OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>) {
            endpoint.whole().multi_recv(Source::Any, vec![0; 800]).unwrap();
        }

        let _ = post;
    }

    fn tagged_multi_recv_that_the_query_lacks() {
        type Wanted = (Messages, Rdm, Tagged, TaggedMultiRecvs);

        fn post(endpoint: &mut OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>) {
            endpoint.whole().tagged_multi_recv(Source::Any, Tag(7), vec![0; 800]).unwrap();
        }

        let _ = post;
    }

    fn protocol_that_the_query_lacks() {
        type Wanted = (Messages, Rdm, Tagged);

        fn announce<P: TaggedSend<Buf = Vec<u8>>>(protocol: &mut P, to: P::To) {
            protocol.tagged_send(to, Tag(7), vec![0; 8]).unwrap();
        }

        fn post(endpoint: &mut OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, peer: Peer) {
            announce(endpoint, peer);
        }

        let _ = post;
    }

    fn query_for_two_types_of_endpoint() {
        type Basic = (Rdm, Messages);
        type Wanted = (Basic, Rdm);

        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 4).unwrap());
        <Wanted as Query>::endpoint(&cq, &av).unwrap();
    }

    fn hints_of_two_types_of_endpoint() {
        const HINTS: Hints<'static> = <(Rdm, Messages) as Query>::HINTS;

        assert!(HINTS.provider.is_none());
    }

    fn collective_that_the_query_lacks() {
        type Wanted = (CollectiveOps, Messages, Rdm);

        fn join(endpoint: &mut OnlyEndpoint<'_, Soft<'_>, Vec<u8>, Wanted>, members: &AddressSet<Global>) {
            endpoint.whole().join_collective(members).unwrap();
        }

        let _ = join;
    }

    fn type_that_is_not_a_query() {
        fn caps<Q: Query>() -> Caps {
            Q::CAPS
        }

        assert_eq!(caps::<Rdm>(), Caps::empty());
    }

    fn query_for_connections_without_one() {
        type Wanted = (Messages, Rdm);

        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 4).unwrap());
        <Wanted as Query>::endpoint(&cq, &av).unwrap();
    }
}

/// The twin needs a transport with connections, so it is compiled only.
#[allow(dead_code, reason = "what matters is that it compiles")]
fn connection_for_a_query_without_one<T: Connected>(endpoint: &MsgEndpoint<'_, T, &'static [u8]>) {
    type Wanted = (Messages, Msg);

    <Wanted as Query>::only(endpoint).unwrap();
}

pub(crate) const CONNECTED: usize = 1;
