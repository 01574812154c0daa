//! Receives that peers' writes use up (`FI_RX_CQ_DATA`).

use loom_core::av::Av;
use loom_core::buffer::{Buffer, Prefixed};
use loom_core::completion::{Completion, RemoteEvent};
use loom_core::cq::{Cq, CqAttr, CqError};
use loom_core::deadline::Spins;
use loom_core::endpoint::RecvOptions;
use loom_core::endpoint::{Binding, Endpoint, Source};
use loom_core::engine::op_table::Direction;
use loom_core::engine::op_table::OpKey;
use loom_core::error::{OpenError, PostError, Rejected};
use loom_core::mr::{Mr, RemoteRegion};
use loom_core::scope;
use loom_core::soft::{Network, NetworkAttr, RequiredModes, Soft};
use loom_core::vocabulary::{Access, Caps, Errno, ImmediateData, Tag};

type Bytes = Box<[u8]>;

const ASKS: RequiredModes = RequiredModes::RX_CQ_DATA;

fn posted<B>(post: Result<OpKey, Rejected<B>>) -> OpKey {
    post.map_err(PostError::from).unwrap()
}

fn bytes(len: usize, byte: u8) -> Bytes {
    vec![byte; len].into()
}

/// Endpoints `a` and `b` of a domain, each on a queue of its own, and a region.
struct Scene<'m, B: Buffer> {
    ours: Cq<'m, Soft<'static>, Bytes>,
    a: Endpoint<'m, Soft<'static>, Bytes>,
    /// Queue of the target.
    cq: Cq<'m, Soft<'static>, B>,
    av: Av<'m, Soft<'static>>,
    region: RemoteRegion,
}

impl<'m, B: Buffer> Scene<'m, B> {
    /// Writes to the region through an endpoint, with this number as data.
    fn write(&self, to: &Endpoint<'m, Soft<'static>, B>, number: u64) {
        let to = self.av.insert(&to.address().unwrap()).unwrap();
        let data = ImmediateData(number);
        let key = posted(self.a.write_data(to, &self.region, 0, data, bytes(4, u8::try_from(number).unwrap())));
        assert!(self.ours.wait(key, Spins(10)).unwrap().unwrap().result().is_ok());
    }

    fn send(&self, to: &Endpoint<'m, Soft<'static>, B>, message: Bytes) {
        let to = self.av.insert(&to.address().unwrap()).unwrap();
        let key = posted(self.a.send(to, message));
        assert!(self.ours.wait(key, Spins(10)).unwrap().unwrap().result().is_ok());
    }

    /// Checks that the next completion is a peer's write with this number.
    fn told(&self, number: u64) {
        let told: Completion<'_, B> = (0..10).find_map(|_| self.cq.poll().unwrap()).expect("it is told");
        let Completion::Remote(event) = told else { panic!("a peer's event") };
        Self::is(event, number);
    }

    fn is(event: RemoteEvent, number: u64) {
        assert_eq!((event.data(), event.len), (Some(ImmediateData(number)), 4));
        assert!(event.source().is_some());
    }

    fn nothing(&self) {
        assert!((0..10).all(|_| self.cq.poll().unwrap().is_none()));
    }
}

fn on_scene<B: Buffer + 'static>(
    attr: NetworkAttr,
    asks: RequiredModes,
    cq_attr: CqAttr,
    test: impl FnOnce(&Scene<'_, B>),
) {
    let network = Network::new(attr).unwrap();
    let mut memory = [0; 4];
    // Also closes the queue of a forgotten endpoint.
    scope(|s| {
        let domain = s.open(&network.info_requiring(asks)).unwrap();
        let av = Av::open(&domain, 8).unwrap();
        let mr = Mr::open(&domain, &mut memory[..], Access::REMOTE_WRITE).unwrap();
        let ours = Cq::open(&domain, CqAttr::new(16)).unwrap();
        let a = ours.endpoint(Binding::to(&av).remote_writes(0)).unwrap();
        let cq = Cq::open(&domain, cq_attr).unwrap();
        test(&Scene { ours, a, cq, av, region: mr.remote() });
    });
}

/// Runs with every other requirement, on queues of both kinds, and without the requirement.
#[test]
fn a_receive_that_a_write_uses_up_still_receives_a_message() {
    for asks in [RequiredModes::empty(), ASKS, ASKS | RequiredModes::CONTEXTS, ASKS | RequiredModes::LARGE_CONTEXTS] {
        for attr in [CqAttr::new(8), CqAttr { separate: true, ..CqAttr::new(8) }] {
            on_scene(NetworkAttr::default(), asks, attr, |scene: &Scene<'_, Bytes>| {
                let b = scene.cq.endpoint(&scene.av).unwrap();
                let key = posted(b.recv(Source::Any, bytes(8, 0xee)));
                for number in 0..20 {
                    scene.write(&b, number);
                    scene.told(number);
                    scene.nothing();
                    assert_eq!(scene.cq.in_flight(), 1);
                }
                scene.write(&b, 20);
                scene.send(&b, bytes(5, 7));
                scene.told(20);
                let done = scene.cq.wait(key, Spins(10)).unwrap().unwrap();
                assert_eq!((done.key(), done.result().unwrap().len), (key, 5));
                assert_eq!(&done.into_buf()[..], [7, 7, 7, 7, 7, 0xee, 0xee, 0xee]);
                assert!(matches!(scene.cq.wait(key, Spins(0)), Err(CqError::UnknownKey)));
                assert_eq!((scene.cq.in_flight(), scene.cq.strays()), (0, 0));
            });
        }
    }
}

#[test]
fn waiting_for_a_receive_keeps_events_of_writes() {
    for attr in [CqAttr::new(8), CqAttr { separate: true, ..CqAttr::new(8) }] {
        on_scene(NetworkAttr::default(), ASKS, attr, |scene: &Scene<'_, Bytes>| {
            let b = scene.cq.endpoint(&scene.av).unwrap();
            let [one, two] = [1, 2].map(|byte| posted(b.recv(Source::Any, bytes(8, byte))));
            (0..10).for_each(|number| scene.write(&b, number));
            assert!(scene.cq.wait(two, Spins(100)).unwrap().is_none());
            scene.send(&b, bytes(3, 8));
            scene.send(&b, bytes(4, 9));
            for key in [one, two] {
                let done = scene.cq.wait(key, Spins(10)).unwrap().unwrap();
                assert!(done.result().is_ok());
            }
            for number in 0..10 {
                let Some(Completion::Remote(event)) = scene.cq.poll_direction(Direction::Receive).unwrap() else {
                    panic!("kept")
                };
                Scene::<Bytes>::is(event, number);
            }
            scene.nothing();
        });
    }
}

#[test]
fn writes_use_up_the_receives_in_the_order_in_which_they_were_posted() {
    on_scene(NetworkAttr::default(), ASKS, CqAttr::new(8), |scene: &Scene<'_, Bytes>| {
        let b = scene.cq.endpoint(&scene.av).unwrap();
        let [first, second] = [(); 2].map(|()| posted(b.recv(Source::Any, bytes(8, 0))));
        // Each used-up receive is posted again, behind the other one.
        for number in 0..2 {
            scene.write(&b, number);
            scene.told(number);
            scene.nothing();
        }
        for (key, byte) in [(first, 1), (second, 2)] {
            scene.send(&b, bytes(8, byte));
            assert_eq!(scene.cq.wait(key, Spins(10)).unwrap().unwrap().into_buf(), bytes(8, byte));
        }
    });
}

#[test]
fn a_write_waits_for_a_receive_and_messages_behind_it() {
    on_scene(NetworkAttr::default(), ASKS, CqAttr::new(8), |scene: &Scene<'_, Bytes>| {
        let b = scene.cq.endpoint(&scene.av).unwrap();
        scene.write(&b, 1);
        scene.send(&b, bytes(8, 2));
        scene.nothing();
        // Writes do not use up tagged receives.
        let tagged = posted(b.tagged_recv(Source::Any, Tag(1), bytes(8, 0)));
        scene.nothing();
        let key = posted(b.recv(Source::Any, bytes(8, 0)));
        scene.told(1);
        assert_eq!(scene.cq.wait(key, Spins(10)).unwrap().unwrap().into_buf(), bytes(8, 2));
        b.cancel(tagged).unwrap();
    });
}

#[test]
fn a_reposted_receive_keeps_its_parameters() {
    // Source of its message.
    on_scene(NetworkAttr::default(), ASKS, CqAttr::new(8), |scene: &Scene<'_, Bytes>| {
        let [b, c] = [(); 2].map(|()| scene.cq.endpoint(&scene.av).unwrap());
        let [to_b, to_c] = [&b, &c].map(|endpoint| scene.av.insert(&endpoint.address().unwrap()).unwrap());
        let key = posted(b.recv(Source::Peer(to_c), bytes(8, 0)));
        scene.write(&b, 1);
        scene.told(1);
        scene.send(&b, bytes(8, 1));
        scene.nothing();
        c.inject(to_b, &[2; 8]).unwrap();
        assert_eq!(scene.cq.wait(key, Spins(10)).unwrap().unwrap().into_buf(), bytes(8, 2));
    });
    // Its buffers.
    on_scene(NetworkAttr::default(), ASKS, CqAttr::new(8), |scene: &Scene<'_, [Bytes; 2]>| {
        let b = scene.cq.endpoint(&scene.av).unwrap();
        let key = posted(b.recv_with(Source::Any, RecvOptions::default(), [bytes(3, 0), bytes(5, 0)]));
        scene.write(&b, 1);
        scene.told(1);
        scene.send(&b, bytes(8, 2));
        assert_eq!(scene.cq.wait(key, Spins(10)).unwrap().unwrap().into_buf(), [bytes(3, 2), bytes(5, 2)]);
    });
    // Its prefix.
    on_scene(
        NetworkAttr::default(),
        ASKS | RequiredModes::PREFIXES,
        CqAttr::new(8),
        |scene: &Scene<'_, Prefixed<Bytes>>| {
            let b = scene.cq.endpoint(&scene.av).unwrap();
            let to_b = scene.av.insert(&b.address().unwrap()).unwrap();
            let key = posted(b.recv(Source::Any, Prefixed { buf: bytes(48, 0), room: 40 }));
            scene.write(&b, 1);
            scene.told(1);
            b.inject(to_b, &[2; 5]).unwrap();
            let done = scene.cq.wait(key, Spins(10)).unwrap().unwrap();
            assert_eq!(done.result().unwrap().len, 5);
            assert_eq!(done.buf().bytes(), [2, 2, 2, 2, 2, 0, 0, 0]);
        },
    );
}

#[test]
fn a_receive_that_cannot_be_posted_again_for_the_moment_is_posted_later() {
    let attr = NetworkAttr { rx_depth: 1, ..NetworkAttr::default() };
    on_scene(attr, ASKS, CqAttr::new(8), |scene: &Scene<'_, Bytes>| {
        let b = scene.cq.endpoint(&scene.av).unwrap();
        let first = posted(b.recv(Source::Any, bytes(8, 0)));
        scene.write(&b, 1);
        scene.told(1);
        // Another receive has its place now.
        let second = posted(b.recv(Source::Any, bytes(8, 0)));
        scene.nothing();
        scene.send(&b, bytes(8, 2));
        assert_eq!(scene.cq.wait(second, Spins(10)).unwrap().unwrap().into_buf(), bytes(8, 2));
        scene.send(&b, bytes(8, 3));
        assert_eq!(scene.cq.wait(first, Spins(10)).unwrap().unwrap().into_buf(), bytes(8, 3));
    });
}

#[test]
fn a_receive_that_was_used_up_can_be_cancelled_and_ends_with_its_endpoint() {
    for forgotten in [false, true] {
        on_scene(NetworkAttr::default(), ASKS, CqAttr::new(8), |scene: &Scene<'_, Bytes>| {
            let b = scene.cq.endpoint(&scene.av).unwrap();
            let ended = |key: OpKey| {
                let done = scene.cq.wait(key, Spins(10)).unwrap().unwrap();
                assert_eq!((done.result().unwrap_err().errno, done.into_buf()), (Errno::ECANCELED, bytes(8, 0)));
            };
            let key = posted(b.recv(Source::Any, bytes(8, 0)));
            scene.write(&b, 1);
            scene.told(1);
            b.cancel(key).unwrap();
            assert_eq!(b.cancel(key), Err(Errno::ENOENT));
            ended(key);
            // Posted again, and then cancelled.
            let key = posted(b.recv(Source::Any, bytes(8, 0)));
            scene.write(&b, 2);
            scene.told(2);
            scene.nothing();
            b.cancel(key).unwrap();
            ended(key);
            // Used up before the close, and during it.
            let [first, second] = [(); 2].map(|()| posted(b.recv(Source::Any, bytes(8, 0))));
            scene.write(&b, 3);
            scene.told(3);
            scene.write(&b, 4);
            if forgotten {
                // Both buffers are dropped when the queue closes.
                core::mem::forget(b);
                return;
            }
            drop(b);
            ended(first);
            ended(second);
        });
    }
}

#[test]
fn an_endpoint_without_messages_reports_every_write() {
    for asks in [RequiredModes::empty(), ASKS, ASKS | RequiredModes::LARGE_CONTEXTS] {
        for attr in [CqAttr::new(8), CqAttr { separate: true, ..CqAttr::new(8) }] {
            on_scene(NetworkAttr::default(), asks, attr, |scene: &Scene<'_, Bytes>| {
                let b = scene.cq.endpoint(Binding::to(&scene.av).remote_writes(3)).unwrap();
                let own = scene.cq.in_flight();
                assert_eq!(own, if asks == RequiredModes::empty() { 0 } else { 3 });
                for round in 0..10 {
                    (0..5).for_each(|number| scene.write(&b, 10 * round + number));
                    (0..5).for_each(|number| scene.told(10 * round + number));
                    scene.nothing();
                    assert_eq!(scene.cq.in_flight(), own);
                }
                let refused = PostError::NotGranted(Caps::RECV);
                assert_eq!(b.recv(Source::Any, bytes(8, 0)).unwrap_err().error, refused);
                assert_eq!(b.tagged_recv(Source::Any, Tag(1), bytes(8, 0)).unwrap_err().error, refused);
                // Its places are free after the close, but with pointers only later (rule 4 of the
                // op table).
                drop(b);
                assert!(scene.cq.poll().unwrap().is_none());
                assert_eq!(scene.cq.in_flight(), 0);
            });
        }
    }
}

#[test]
fn a_message_for_an_endpoint_without_messages_is_lost_and_reported() {
    on_scene(NetworkAttr::default(), ASKS, CqAttr::new(8), |scene: &Scene<'_, Bytes>| {
        let b = scene.cq.endpoint(Binding::to(&scene.av).remote_writes(1)).unwrap();
        for (len, errno, overflow) in [(5, Errno::ETRUNC, Some(5)), (0, Errno::ENOBUFS, None)] {
            scene.send(&b, bytes(len, 1));
            let Some(Completion::Unclaimed(error)) = scene.cq.poll().unwrap() else { panic!("told") };
            assert_eq!((error.errno, error.overflow), (errno, overflow));
            scene.send(&b, bytes(len, 1));
            let error = (0..10).find_map(|_| scene.cq.poll_direction(Direction::Receive).unwrap());
            assert!(matches!(error, Some(Completion::Unclaimed(error)) if error.errno == errno));
            // Another receive is posted.
            scene.write(&b, 7);
            scene.told(7);
        }
    });
}

#[test]
fn the_queue_requires_places_for_receives_used_by_writes() {
    on_scene(NetworkAttr::default(), ASKS, CqAttr::new(8), |scene: &Scene<'_, Bytes>| {
        let refused = scene.cq.endpoint(Binding::to(&scene.av).remote_writes(9)).unwrap_err();
        assert_eq!(refused, OpenError::Size);
        assert_eq!(scene.cq.in_flight(), 0);
        // Until the queue is empty, it can contain events of the posted receives.
        scene.nothing();
        let b = scene.cq.endpoint(Binding::to(&scene.av).remote_writes(8)).unwrap();
        let to_b = scene.av.insert(&b.address().unwrap()).unwrap();
        assert_eq!(b.send(to_b, bytes(8, 0)).unwrap_err().error, PostError::Full);
    });
    // Receives without a place in the transport are posted later.
    let attr = NetworkAttr { rx_depth: 2, ..NetworkAttr::default() };
    on_scene(attr, ASKS, CqAttr::new(8), |scene: &Scene<'_, Bytes>| {
        let b = scene.cq.endpoint(Binding::to(&scene.av).remote_writes(4)).unwrap();
        (0..6).for_each(|number| scene.write(&b, number));
        (0..6).for_each(|number| scene.told(number));
    });
}

#[test]
fn endpoints_that_take_messages_have_no_multi_receives() {
    on_scene(NetworkAttr::default(), ASKS, CqAttr::new(8), |scene: &Scene<'_, Bytes>| {
        let b = scene.cq.endpoint(&scene.av).unwrap();
        let refused = b.multi_recv(Source::Any, bytes(100, 0)).unwrap_err();
        assert_eq!(refused.error, PostError::NotGranted(Caps::MULTI_RECV));
        let refused = b.tagged_multi_recv(Source::Any, Tag(1), bytes(100, 0)).unwrap_err();
        assert_eq!(refused.error, PostError::NotGranted(Caps::TAGGED_MULTI_RECV));
    });
}
