use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};

use loom_core::driver::Drive;

use super::BUDGET;

/// Runs a future to completion, and drives the queues that it waits for.
///
/// The future is polled after every [turn](Drive::turn): for many waiting futures, use a
/// [`LocalExecutor`](super::LocalExecutor).
///
/// ```
/// use loom_async::block_on;
/// use loom_core::driver::{CqDriver, Unclaimed};
/// use loom_core::{Av, Cq, Domain, Source};
///
/// # fixture::endpoints!(network, domain, av, cq, alice, bob, to_bob);
/// let driver = CqDriver::open(&cq, Unclaimed::Drop)?;
/// let received = block_on(&driver, async {
///     driver.run(b"hello".to_vec(), |message| alice.send(to_bob, message)).await?.result()?;
///     Ok::<_, loom_core::Error>(driver.run(vec![0; 5], |room| bob.recv(Source::Any, room)).await?.into_buf())
/// })?;
/// assert_eq!(received, b"hello");
/// # Ok::<_, loom_core::Error>(())
/// ```
pub fn block_on<D: Drive + ?Sized, M: Future>(drive: &D, future: M) -> M::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        drive.turn(BUDGET);
    }
}
