//! Lifetimes of lent values.

use core::mem::MaybeUninit;

use loom_core::allocator_api2::alloc::Global;
use loom_core::av::Av;
use loom_core::completion::Completion;
use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::Cq;
use loom_core::deadline::Forever;
use loom_core::domain::Domain;
use loom_core::endpoint::{Binding, Source};
use loom_core::engine::peer_table::{PeerSlot, PeerTable};
use loom_core::mr::Mr;
use loom_core::soft::{Network, NetworkAttr, Soft};
use loom_core::vocabulary::{Access, Counted, EndpointAddr, FabricAddr};
use loom_core::{Scope, scope};

twins! {
    fn buffer_shorter_than_scope() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let mut memory = [0; 8];
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, 4).unwrap());
            let endpoint = cq.endpoint(&av).unwrap();
            endpoint.recv(Source::Any, &mut memory[..]).unwrap();
        });
    }

    fn temporary_buffer() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let mut memory = vec![0; 8];
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, 4).unwrap());
            let endpoint = cq.endpoint(&av).unwrap();
            endpoint.recv(Source::Any, memory.as_mut_slice()).unwrap();
        });
    }

    fn posted_buffer_written() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let mut memory = [0; 8];
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, 4).unwrap());
            let endpoint = cq.endpoint(&av).unwrap();
            endpoint.recv(Source::Any, &mut memory[..]).unwrap();
        });
        memory[0] = 1;
        assert_eq!(memory[0], 1);
    }

    fn posted_buffer_written_after_forgetting() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let mut memory = [0; 8];
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, 4).unwrap());
            let endpoint = cq.endpoint(&av).unwrap();
            endpoint.recv(Source::Any, &mut memory[..]).unwrap();
            core::mem::forget((domain, av, cq, endpoint));
        });
        memory[0] = 1;
        assert_eq!(memory[0], 1);
    }

    fn posted_buffer_read() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let mut memory = [0; 8];
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, 4).unwrap());
            let endpoint = cq.endpoint(&av).unwrap();
            endpoint.recv(Source::Any, &mut memory[..]).unwrap();
        });
        assert_eq!(memory[0], 0);
    }

    fn posted_source_written() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let mut memory = [0; 8];
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, 4).unwrap());
            let endpoint = cq.endpoint(&av).unwrap();
            let peer = av.insert(&endpoint.address().unwrap()).unwrap();
            endpoint.send(peer, &memory[..]).unwrap();
            assert_eq!(memory[0], 0, "others may read");
        });
        memory[0] = 1;
        assert_eq!(memory[0], 1);
    }

    fn posted_twice() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let mut memory = [0; 8];
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, 4).unwrap());
            let endpoint = cq.endpoint(&av).unwrap();
            let (left, right) = memory.split_at_mut(4);
            endpoint.recv(Source::Any, left).unwrap();
            endpoint.recv(Source::Any, right).unwrap();
        });
    }

    fn owned_buffer_after_post() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let cq = Cq::open(&domain, 4).unwrap();
        let endpoint = cq.endpoint(&av).unwrap();
        let buffer: Box<[u8]> = Box::new([0; 8]);
        let key = endpoint.recv(Source::Any, buffer).unwrap();
        endpoint.cancel(key).unwrap();
        let buffer = cq.wait(key, Forever).unwrap().unwrap().into_buf();
        assert_eq!(buffer[0], 0);
    }

    fn borrowed_buffer_in_long_lived_queue() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        let memory = Box::leak(Box::new([0; 8]));
        let cq = Cq::open(&domain, 4).unwrap();
        let endpoint = cq.endpoint(&av).unwrap();
        endpoint.recv(Source::Any, &mut memory[..]).unwrap();
    }

    fn borrowed_buffer_in_queue_of_kept_domain() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let mut memory = [0; 8];
        scope(|s| {
            let domain = s.domain(&domain);
            let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, 4).unwrap());
            let endpoint = cq.endpoint(&av).unwrap();
            endpoint.recv(Source::Any, &mut memory[..]).unwrap();
        });
    }

    fn borrowed_arena_in_kept_queue() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let arena = Global;
        scope(|s| {
            let domain = s.domain(&domain);
            let cq = Cq::<_, Vec<u8>>::open_in(&domain, 4, &arena).unwrap();
            assert_eq!(cq.in_flight(), 0);
        });
    }

    fn arena_shorter_than_scope() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let arena = Global;
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            let cq = Cq::<_, Vec<u8>>::open_in(&domain, 4, &arena).unwrap();
            assert_eq!(cq.in_flight(), 0);
        });
    }

    fn network_shorter_than_scope() {
        let arena = Global;
        scope(|s| {
            let network = Network::new_in(NetworkAttr::default(), &arena).unwrap();
            let domain = s.open(&network.info()).unwrap();
            core::mem::forget(Cq::<_, Vec<u8>>::open(&domain, 4).unwrap());
        });
    }

    fn network_of_borrowed_memory_with_kept_domain() {
        let arena = Global;
        let network = Network::new_in(NetworkAttr::default(), &arena).unwrap();
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            assert_eq!(domain.info().provider(), "soft");
        });
    }

    fn counter_of_kept_domain_in_scope() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        scope(|s| {
            let domain = s.domain(&domain);
            let counter = Counter::open(&domain, CounterAttr::default()).unwrap();
            let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 4).unwrap());
            cq.endpoint(Binding::to(&av).counter(Counted::SEND, &counter)).unwrap();
        });
    }

    fn send_from_uninit() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let mut memory = [MaybeUninit::<u8>::uninit(); 8];
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, 4).unwrap());
            let endpoint = cq.endpoint(&av).unwrap();
            endpoint.recv(Source::Any, &mut memory[..]).unwrap();
        });
    }

    fn receive_into_shared() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let memory = [0; 8];
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::open(&domain, 4).unwrap());
            let endpoint = cq.endpoint(&av).unwrap();
            let peer = av.insert(&endpoint.address().unwrap()).unwrap();
            endpoint.send(peer, &memory[..]).unwrap();
        });
    }

    fn domain_kept_beyond_scope() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let kept = scope(|s| s.open(&network.info()).unwrap().info().caps());
        assert!(!kept.is_empty());
    }

    fn queue_kept_beyond_scope() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let mut kept: Option<usize> = None;
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            kept = Some(Cq::<_, Box<[u8]>>::open(&domain, 4).unwrap().capacity());
        });
        assert!(kept.is_some());
    }

    fn endpoint_kept_beyond_scope() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let mut kept: Option<EndpointAddr> = None;
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<_, Box<[u8]>>::open(&domain, 4).unwrap());
            kept = Some(cq.endpoint(&av).unwrap().address().unwrap());
        });
        assert!(kept.is_some());
    }

    fn piece_kept_beyond_scope() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let len = scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            let cq = Cq::<_, Box<[u8]>>::open(&domain, 4).unwrap();
            match cq.poll().unwrap() {
                Some(Completion::Piece(piece)) => Some(piece.bytes().len()),
                _ => None,
            }
        });
        assert!(len.is_none());
    }

    fn bytes_of_a_dropped_piece() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let cq = Cq::<_, Box<[u8]>>::open(&domain, 4).unwrap();
        if let Some(Completion::Piece(piece)) = cq.poll().unwrap() {
            let bytes = piece.bytes();
            assert!(bytes.is_empty());
            drop(piece);
        }
    }

    fn address_vector_of_scope_in_kept_queue() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let av = Av::open(&domain, 2).unwrap();
        scope(|s| {
            let cq = Cq::<_, Box<[u8]>>::open(&s.domain(&domain), 4).unwrap();
            cq.endpoint(&av).unwrap();
        });
    }

    fn queue_of_shorter_buffers() {
        fn as_long<'m>(cq: Cq<'m, Soft<'m>, &'static [u8]>) -> Cq<'m, Soft<'m>, &'static [u8]> {
            cq
        }
        let _ = as_long;
    }

    fn kept_queue_as_one_of_a_scope() {
        fn as_long(cq: Cq<'static, Soft<'static>, ()>) -> Cq<'static, Soft<'static>, ()> {
            cq
        }
        let _ = as_long;
    }

    fn kept_domain_as_one_of_a_scope() {
        fn shorter<'m>(domain: &Domain<'static, Soft<'static>>, s: &'m Scope<'m, '_>) -> Domain<'m, Soft<'static>> {
            s.domain(domain)
        }
        let _ = shorter;
    }

    fn region_of_borrowed_memory() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let mut memory = [0; 8];
        scope(|s| drop(Mr::open(&s.domain(&domain), &mut memory[..], Access::REMOTE_WRITE).unwrap()));
        let region = Mr::open(&domain, Vec::from(memory), Access::REMOTE_WRITE).unwrap();
        drop(region);
    }

    fn region_kept_beyond_scope() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let mut memory = [0; 8];
        let remote = scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            Mr::open(&domain, &mut memory[..], Access::REMOTE_WRITE).unwrap().remote()
        });
        assert_eq!(remote.len, 8);
    }

    fn exposed_memory_touched() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let mut memory = [0; 8];
        scope(|s| {
            let domain = s.open(&network.info()).unwrap();
            let region = Mr::open(&domain, &mut memory[..], Access::REMOTE_WRITE).unwrap();
            assert_eq!(region.window().len(), 8);
        });
        memory[0] = 1;
        assert_eq!(memory[0], 1);
    }

    fn region_of_scope_for_kept_endpoint() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        scope(|s| {
            let domain = s.domain(&domain);
            let (av, cq) = (Av::open(&domain, 2).unwrap(), Cq::<_, Vec<u8>>::open(&domain, 4).unwrap());
            let endpoint = cq.endpoint(&av).unwrap();
            Mr::open_for(&domain, &endpoint, vec![0; 8], Access::REMOTE_WRITE).unwrap();
        });
    }

    fn address_vector_written_to_by_its_reader() {
        let mut entries = [PeerSlot::default(), PeerSlot::default()];
        let mut peers = PeerTable::new(&mut entries);
        let own = peers.insert(FabricAddr(1)).unwrap();
        assert_eq!(peers.remove(own), Some(FabricAddr(1)));
    }

    fn window_beyond_region() {
        let network = Network::new(NetworkAttr::default()).unwrap();
        let domain = Domain::open(&network.info()).unwrap();
        let region = Mr::open(&domain, vec![0; 8], Access::REMOTE_WRITE).unwrap();
        let window = region.window();
        assert_eq!(window.len(), 8);
        drop(region);
    }
}
