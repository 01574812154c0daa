//! Awaited connections: a server's task for each, and concurrent clients.

use std::time::Instant;

use futures_util::future::join_all;
use futures_util::join;
use loom_async::block_on;
use loom_core::OpenError;
use loom_core::driver::{CqDriver, Drive, EqDriver, Unclaimed};
use loom_core::endpoint::ThePeer;
use loom_core::eq::EqEvent;
use loom_core::error::Rejected;
use loom_core::info::Info;
use loom_core::vocabulary::Errno;

use super::Case;
use super::sides::{Bytes, LIMIT, Sides, T, pattern, room, with_sides};

pub(crate) fn cases() -> Vec<(&'static str, Case)> {
    vec![
        ("awaited_clients_are_served_beside_each_other", awaited_clients_are_served_beside_each_other),
        ("an_awaited_connection_that_is_rejected_fails", an_awaited_connection_that_is_rejected_fails),
        ("a_dropped_connect_closes_its_endpoint", a_dropped_connect_closes_its_endpoint),
    ]
}

/// A driver with a deadline.
struct Bounded<D>(D, Instant);

impl<D: Drive> Drive for Bounded<D> {
    fn turn(&self, budget: usize) -> usize {
        assert!(self.1.elapsed() < LIMIT, "nothing within {LIMIT:?}");
        self.0.turn(budget)
    }
}

/// Drivers of both sides' event queues and of their completion queue.
type Drivers<'d> = (CqDriver<'d, T, Bytes>, EqDriver<'d, T>, EqDriver<'d, T>);

fn drivers<'d>(sides: &Sides<'_, 'd>) -> Bounded<Drivers<'d>> {
    let cq = CqDriver::open(sides.cq, Unclaimed::Drop).expect("the queue's driver");
    let server = EqDriver::open(sides.server, 64).expect("the server's driver");
    let client = EqDriver::open(sides.client, 64).expect("the client's driver");
    Bounded((cq, server, client), Instant::now())
}

fn awaited_clients_are_served_beside_each_other(info: &Info<T>) {
    const CLIENTS: usize = 8;
    with_sides(info, |sides| {
        let drive = drivers(sides);
        let (cq, server, client) = &drive.0;
        let serves = async {
            let mut tasks = Vec::new();
            while tasks.len() < CLIENTS {
                // The queue also reports ended connections.
                let EqEvent::Request(request) = server.next_event().await.expect("an event") else { continue };
                let name = request.data.to_vec();
                tasks.push(async move {
                    let endpoint = request.endpoint(sides.cq, sides.server).expect("an endpoint");
                    let endpoint = server.accept(endpoint, &name).await.expect("connected");
                    let received = cq.run(room(100), |buf| endpoint.recv(ThePeer, buf)).await.expect("posted");
                    received.result().expect("received");
                    let sent = cq.run(received.into_buf(), |buf| endpoint.send(ThePeer, buf)).await.expect("posted");
                    sent.result().expect("sent");
                    endpoint
                });
            }
            join_all(tasks).await
        };
        let asks = join_all((0..CLIENTS).map(|number| async move {
            let name = [u8::try_from(number).expect("few"); 4];
            let (endpoint, answer) = client.connect(sides.idle(), &sides.address, &name).await.expect("connected");
            assert_eq!(answer[..4], name);
            let answered = cq.post(room(100), |buf| endpoint.recv(ThePeer, buf)).await;
            let answered = answered.map_err(|refused| refused.error).expect("posted");
            let sent = cq.run(pattern(100, number), |buf| endpoint.send(ThePeer, buf)).await.expect("posted");
            sent.result().expect("sent");
            let (answer, result) = cq.finish(answered).await.expect("answered").into_parts();
            result.expect("received");
            assert_eq!(answer, pattern(100, number));
            endpoint
        }));
        let (servers, clients) = block_on(&drive, async { join!(serves, asks) });
        assert_eq!((servers.len(), clients.len()), (CLIENTS, CLIENTS));
    });
}

fn an_awaited_connection_that_is_rejected_fails(info: &Info<T>) {
    with_sides(info, |sides| {
        let drive = drivers(sides);
        let (_, server, client) = &drive.0;
        let rejects = async {
            let EqEvent::Request(request) = server.next_event().await.expect("an event") else { panic!("a request") };
            drop(request);
        };
        let asks = client.connect(sides.idle(), &sides.address, &[]);
        let (asked, ()) = block_on(&drive, async { join!(asks, rejects) });
        let Err(Rejected { error, value: Some(failure) }) = asked else {
            panic!("rejected, not {:?}", asked.map(drop))
        };
        assert_eq!(error, OpenError::Unconnected(Errno::ECONNREFUSED));
        assert_eq!(failure.fault.errno, Errno::ECONNREFUSED);
    });
}

fn a_dropped_connect_closes_its_endpoint(info: &Info<T>) {
    with_sides(info, |sides| {
        let drive = drivers(sides);
        let (_, server, client) = &drive.0;
        let received = {
            let idle = sides.idle();
            let received = idle.recv(ThePeer, room(10)).expect("posted");
            let mut asks = Box::pin(client.connect(idle, &sides.address, &[]));
            block_on(&drive, async { assert!(futures_util::poll!(&mut asks).is_pending()) });
            received
        };
        // The receive returns, and the server accepts another client.
        let done = block_on(&drive, drive.0.0.finish(received)).expect("it comes back");
        assert_eq!(done.result().expect_err("closed").errno, Errno::ECANCELED);
        let serves = async {
            loop {
                let EqEvent::Request(request) = server.next_event().await.expect("an event") else { continue };
                if request.data.starts_with(b"second") {
                    let endpoint = request.endpoint(sides.cq, sides.server).expect("an endpoint");
                    return server.accept(endpoint, &[]).await.expect("connected");
                }
            }
        };
        let asks = client.connect(sides.idle(), &sides.address, b"second");
        let (asked, _served) = block_on(&drive, async { join!(asks, serves) });
        asked.expect("connected");
    });
}
