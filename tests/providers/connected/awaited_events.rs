//! Awaited connections: drivers of event queues.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use loom_core::OpenError;
use loom_core::driver::{Drive, EqDriver};
use loom_core::eq::EqEvent;
use loom_core::info::Info;
use loom_core::vocabulary::EndpointOption;

use super::Case;
use super::sides::{Endpoint, LIMIT, Sides, T, with_sides};

pub(crate) fn cases() -> Vec<(&'static str, Case)> {
    vec![
        ("an_accepted_connection_is_not_an_event_for_others", an_accepted_connection_is_not_an_event_for_others),
        ("a_future_takes_a_copy_of_its_data", a_future_takes_a_copy_of_its_data),
    ]
}

/// Drives both sides until a future completes.
fn drive<F: Future>(sides: &Sides<'_, '_>, drivers: &[&EqDriver<'_, T>], future: F) -> F::Output {
    let mut future = pin!(future);
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
        assert!(Instant::now() < deadline, "not over within {LIMIT:?}");
        drivers.iter().for_each(|driver| _ = driver.turn(8));
        sides.cq.progress().expect("works");
    }
}

fn drivers<'d>(sides: &Sides<'_, 'd>) -> [EqDriver<'d, T>; 2] {
    [sides.server, sides.client].map(|eq| EqDriver::open(eq, 8).expect("a driver"))
}

/// Checks the future of an accepted connection, with any time before its first poll, as in a new
/// task.
fn an_accepted_connection_is_not_an_event_for_others(info: &Info<T>) {
    with_sides(info, |sides| {
        let [server, client] = &drivers(sides);
        let connects = client.connect(sides.idle(), &sides.address, b"here");
        let accepts = async {
            let EqEvent::Request(request) = server.next_event().await.expect("an event") else { panic!("a request") };
            assert_eq!(*request.data, *b"here");
            let endpoint = request.endpoint(sides.cq, sides.server).expect("an endpoint");
            let accepting = server.accept(endpoint, b"there");
            let until = Instant::now() + Duration::from_millis(20);
            while Instant::now() < until {
                [server, client].iter().for_each(|driver| _ = driver.turn(8));
                let event = server.next_event().now_or_never();
                assert!(event.is_none(), "{event:?}");
            }
            accepting.await.expect("accepted")
        };
        let both = async { futures_util::join!(connects, accepts) };
        let (connected, server_side) = drive(sides, &[server, client], both);
        let (client_side, answer): (Endpoint<'_>, _) = connected.expect("connected");
        assert_eq!(&*answer, b"there");
        sides.message(&client_side, &server_side, 100, 1);
    });
}

fn a_future_takes_a_copy_of_its_data(info: &Info<T>) {
    with_sides(info, |sides| {
        let [_, client] = &drivers(sides);
        for more in [1, 10_000] {
            let idle = sides.idle();
            let limit = idle.option(EndpointOption::CM_DATA_SIZE).expect("the provider tells");
            let refused = drive(sides, &[client], client.connect(idle, &sides.address, &vec![0; limit + more]));
            let refused = refused.expect_err("more than goes along");
            assert_eq!(refused.error, OpenError::DataTooLong { limit });
        }
    });
}
