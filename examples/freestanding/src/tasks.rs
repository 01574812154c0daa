use core::cell::Cell;
use core::future::{Future, pending, poll_fn};
use core::pin::Pin;
use core::task::{Poll, Waker};
use core::time::Duration;

use loom_async::clock::Clock;
use loom_async::timers::Timers;
use loom_async::{LocalExecutor, block_on};
use loom_core::{Av, CqDriver, Endpoint, Error, Source, Tag, Transport};

use crate::buffers::{Buffer, Buffers};
use crate::failure::Failure;
use crate::processor;

const TAG: Tag = Tag(7);
const PATIENCE: u32 = 1000;

const LIMIT: Duration = Duration::from_nanos(1 << 36);

/// Time stamp counter as a clock, with a nanosecond for each cycle.
struct Cycles;

impl Clock for Cycles {
    fn now(&self) -> Duration {
        Duration::from_nanos(processor::now())
    }
}

pub type Task<'t> = Pin<&'t mut dyn Future<Output = ()>>;

pub struct Trips<'m, 'b, T: Transport> {
    driver: CqDriver<'m, T, Buffer<'b>>,
    timers: Timers<Cycles>,
    here: Endpoint<'m, T, Buffer<'b>>,
    there: Endpoint<'m, T, Buffer<'b>>,
    /// Buffers of the next trip, and the waker of its task.
    asked: Cell<Option<(Buffer<'b>, Buffer<'b>)>>,
    asks: Cell<Option<Waker>>,
    back: Cell<Option<(Buffer<'b>, Buffer<'b>)>>,
    failed: Cell<Option<Error>>,
}

impl<'m, 'b, T: Transport> Trips<'m, 'b, T> {
    pub fn open(driver: CqDriver<'m, T, Buffer<'b>>, av: &Av<'m, T>) -> Result<Self, Failure> {
        let (here, there) = (driver.cq().endpoint(av)?, driver.cq().endpoint(av)?);
        let (asked, asks, back, failed) = Default::default();
        Ok(Trips { driver, timers: Timers::new(Cycles), here, there, asked, asks, back, failed })
    }

    pub async fn asks(&self, av: &Av<'m, T>) {
        let there = async {
            let peer = av.insert(&self.there.address()?)?;
            loop {
                let (message, room) = self.is_asked().await;
                let answer = self.driver.post(room, |room| self.here.tagged_recv(Source::Any, TAG, room)).await?;
                let sent = self.driver.run(message, |message| self.here.tagged_send(peer, TAG, message)).await?;
                let (message, _) = sent.into_result()?;
                let (room, _) = self.timers.timeout(LIMIT, self.driver.finish(answer)).await??.into_result()?;
                self.back.set(Some((message, room)));
            }
        };
        self.ends(there.await);
    }

    pub async fn answers(&self, av: &Av<'m, T>, room: Buffer<'b>) {
        let back = async {
            let peer = av.insert(&self.here.address()?)?;
            let mut room = room;
            loop {
                let received = self.driver.run(room, |room| self.there.tagged_recv(Source::Any, TAG, room)).await?;
                let (message, _) = received.into_result()?;
                let sent = self.driver.run(message, |message| self.there.tagged_send(peer, TAG, message)).await?;
                (room, _) = sent.into_result()?;
            }
        };
        self.ends(back.await);
    }

    fn is_asked(&self) -> impl Future<Output = (Buffer<'b>, Buffer<'b>)> {
        poll_fn(|cx| match self.asked.take() {
            Some(asked) => Poll::Ready(asked),
            None => {
                self.asks.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        })
    }

    fn ends(&self, result: Result<(), Error>) {
        if let Err(error) = result {
            self.failed.set(Some(error));
        }
    }

    pub fn trip(&self, executor: &LocalExecutor<Task<'_>>, buffers: &mut Buffers<'b>) -> Result<(), Failure> {
        self.asked.set(Some(buffers.take()?));
        if let Some(waker) = self.asks.take() {
            waker.wake();
        }
        for _ in 0..PATIENCE {
            executor.round(&(&self.driver, &self.timers));
            if let Some((message, room)) = self.back.take() {
                *buffers = Buffers::new(message, room);
                return Ok(());
            }
            if let Some(error) = self.failed.take() {
                return Err(Failure::Loom(error));
            }
        }
        Err(Failure::Wrong("a trip does not end"))
    }

    /// Checks that a timeout ends at its time.
    pub fn times_out(&self) -> Result<(), Failure> {
        let (begin, limit) = (Cycles.now(), Duration::from_nanos(100_000));
        let given_up = block_on(&(&self.driver, &self.timers), self.timers.timeout(limit, pending::<()>())).is_err();
        if given_up && Cycles.now() - begin >= limit { Ok(()) } else { Err(Failure::Wrong("a timer is early")) }
    }
}
