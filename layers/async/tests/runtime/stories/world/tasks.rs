use core::cell::{Cell, RefCell};
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::rc::Rc;

use loom_core::atomic::FetchOp;
use loom_core::completion::{Completion, Done};
use loom_core::cq::CqError;
use loom_core::driver::{CqDriver, Drive, Finish, RunError};
use loom_core::endpoint::Granted;
use loom_core::endpoint::{Endpoint, Source};
use loom_core::engine::op_table::{Fetched, OpKey, Peek};
use loom_core::error::{PostError, Rejected};
use loom_core::soft::Soft;
use loom_core::vocabulary::{Errno, ImmediateData, Tag, TagMatch};
use loom_core::{Peer, RemoteRegion};

use super::book::{Book, End, Kind};
use super::step::{Faults, Job, Setting, Way, What};
use crate::memory::{Memory, drops};

pub type S = Soft<'static>;

/// Offset of the number that additions change, in bytes. Writes go to `WRITTEN_AT`.
const NUMBER_AT: u64 = 0;
const WRITTEN_AT: u64 = 8;

const CLOSED: PostError = PostError::Errno(Errno::ESHUTDOWN);

pub struct Ground {
    pub setting: Setting,
    pub driver: CqDriver<'static, S, Memory>,
    pub endpoints: RefCell<[Option<Endpoint<'static, S, Memory>>; 2]>,
    pub peers: [Peer; 2],
    pub remote: RemoteRegion,
    pub add: Granted<FetchOp<u64>>,
    pub book: RefCell<Book>,
    pub published: Cell<Option<OpKey>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    Busy,
    Room,
    End(OpKey),
    Joined(OpKey),
    Event,
    Unclaimed,
    Over,
}

pub struct Card {
    pub at: Cell<At>,
    /// Number of changes of `at`, without retries of posts.
    pub steps: Cell<u32>,
    pub tries: Cell<u32>,
    pub waker: RefCell<Option<Waker>>,
    pub ends: Cell<bool>,
}

impl Card {
    pub fn new() -> Rc<Self> {
        let (at, waker) = (Cell::new(At::Busy), RefCell::new(None));
        Rc::new(Card { at, steps: Cell::new(0), tries: Cell::new(0), waker, ends: Cell::new(false) })
    }

    fn is_at(&self, at: At) {
        self.at.set(at);
        self.steps.set(self.steps.get() + 1);
    }
}

pub struct Watched<'g> {
    card: Rc<Card>,
    inner: Option<Pin<Box<dyn Future<Output = ()> + 'g>>>,
}

impl<'g> Watched<'g> {
    pub fn new(card: Rc<Card>, inner: impl Future<Output = ()> + 'g) -> Self {
        Watched { card, inner: Some(Box::pin(inner)) }
    }
}

impl Future for Watched<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.card.waker.borrow_mut().get_or_insert_with(|| cx.waker().clone());
        if self.card.ends.get() {
            self.inner = None;
        }
        let polled = self.inner.as_mut().map_or(Poll::Ready(()), |inner| inner.as_mut().poll(cx));
        if polled.is_ready() {
            self.card.is_at(At::Over);
        }
        polled
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.inner = None;
        self.card.is_at(At::Over);
    }
}

struct Held<'g> {
    ground: &'g Ground,
    key: OpKey,
}

impl Held<'_> {
    fn let_go(self) -> OpKey {
        let key = self.key;
        core::mem::forget(self);
        key
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if !self.ground.setting.forgets {
            drop(self.ground.driver.finish(self.key));
        }
    }
}

async fn next_round() {
    let mut polled = false;
    core::future::poll_fn(|cx| {
        if core::mem::replace(&mut polled, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

async fn once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    core::future::poll_fn(|cx| Poll::Ready(Pin::new(&mut *future).poll(cx))).await
}

pub struct Idle;

impl Drive for Idle {
    fn turn(&self, _: usize) -> usize {
        0
    }
}

impl Ground {
    fn endpoint(&self, side: usize) -> Option<Endpoint<'static, S, Memory>> {
        self.endpoints.borrow()[side].clone()
    }

    fn is_refused(&self, error: PostError) {
        let book = self.book.borrow();
        let gone = book.closing || self.setting.faults == Faults::Killing;
        let expected = (gone && error == CLOSED) || (error.is_transient() && book.may_have_too_many_events());
        assert!(expected, "{error}");
    }

    fn is_not_waited_for(&self, key: OpKey, error: CqError, shared: bool) {
        match error {
            CqError::PeerEvents => assert!(self.book.borrow().may_have_too_many_events()),
            CqError::UnknownKey | CqError::Awaited => assert!(shared, "{error}"),
            error => panic!("{error}"),
        }
        if error == CqError::PeerEvents && !shared {
            drop(Held { ground: self, key });
        }
    }

    pub fn event(&self, event: Completion<'static, Memory>) {
        match event {
            Completion::Remote(event) => {
                let ImmediateData(data) = event.data().expect("each write has a number");
                self.book.borrow_mut().notified(data);
            }
            Completion::Peek(peek) => self.answer(&peek),
            Completion::Op(done) => self.book.borrow_mut().done(done),
            Completion::Value(fetched) => self.fetched(&fetched),
            other => panic!("nobody posted for {other:?}"),
        }
    }

    fn answer(&self, peek: &Peek) {
        let mut book = self.book.borrow_mut();
        let end = match peek.message() {
            Ok(found) => {
                if let Some(found) = found {
                    let side = book.op(peek.key).and_then(Self::side_of_peek).expect("it was a peek");
                    book.found((side, Some(found.tag.0)), found.len);
                }
                End::Done
            }
            Err(error) => {
                book.may_fail(Kind::Write, error.errno, false);
                End::Failed(error.errno)
            }
        };
        book.ended(peek.key, end);
    }

    fn side_of_peek(op: &super::book::Op) -> Option<usize> {
        if let Kind::Peek(side) = op.kind { Some(side) } else { None }
    }

    fn fetched(&self, fetched: &Fetched) {
        let mut book = self.book.borrow_mut();
        let end = match fetched.value::<u64>() {
            Ok(before) => {
                book.added(fetched.key, before.expect("a number was fetched"));
                End::Done
            }
            Err(error) => {
                book.may_fail(Kind::Fetch, error.errno, false);
                End::Failed(error.errno)
            }
        };
        book.ended(fetched.key, end);
    }

    pub async fn play(&self, card: Rc<Card>, jobs: Vec<Job>) {
        for job in jobs {
            match job.what {
                What::Send | What::Receive | What::Write => self.transfer(&card, job).await,
                What::Fetch => self.fetch(&card, job).await,
                What::Peek => self.peek(&card, job).await,
                What::Join => self.join(&card, job).await,
                What::Event => {
                    card.is_at(At::Event);
                    self.event(self.driver.next_event().await.expect("the queue works"));
                }
                What::Unclaimed => {
                    card.is_at(At::Unclaimed);
                    let done = self.driver.next_unclaimed().await.expect("the queue works");
                    self.book.borrow_mut().done(done);
                }
            }
            card.is_at(At::Busy);
        }
    }

    async fn transfer(&self, card: &Card, job: Job) {
        let (buf, kind, number) = {
            let mut book = self.book.borrow_mut();
            match job.what {
                What::Send => {
                    let (number, buf) = book.draft((1 - job.side, job.tag), job.len);
                    (buf, Kind::Send(number, job.len), 0)
                }
                What::Receive => (Memory::new(&[0xee; super::LONGEST]), Kind::Receive((job.side, job.tag)), 0),
                _ => (Memory::new(&[7; 8]), Kind::Write, book.next_write()),
            }
        };
        let id = buf.id;
        let post = |buf: Memory| {
            card.tries.set(card.tries.get() + 1);
            let Some(endpoint) = self.endpoint(job.side) else { return Err(Rejected { value: buf, error: CLOSED }) };
            let (peer, tag) = (self.peers[job.side], job.tag.map(Tag));
            let key = match (job.what, tag) {
                (What::Send, None) => endpoint.send(peer, buf),
                (What::Send, Some(tag)) => endpoint.tagged_send(peer, tag, buf),
                (What::Receive, None) => endpoint.recv(Source::Any, buf),
                (What::Receive, Some(tag)) => endpoint.tagged_recv(Source::Any, TagMatch::exact(tag), buf),
                _ => {
                    let data = ImmediateData(number.try_into().unwrap());
                    endpoint.write_data(peer, &self.remote, WRITTEN_AT, data, buf)
                }
            }?;
            let mut book = self.book.borrow_mut();
            book.posted(key, kind, Some(id));
            if kind == Kind::Write {
                book.writes(key);
            }
            card.is_at(At::End(key));
            Ok(key)
        };
        card.is_at(At::Room);
        if job.way == Way::Run {
            return match self.driver.run(buf, post).await {
                Ok(done) => self.book.borrow_mut().done(done),
                Err(RunError::Rejected(rejected)) => self.is_rejected(&rejected, id),
                Err(RunError::Queue { key, error }) => self.is_not_waited_for(key, error, false),
            };
        }
        let key = match self.driver.post(buf, post).await {
            Ok(key) => key,
            Err(rejected) => return self.is_rejected(&rejected, id),
        };
        let Some(finish) = self.finish(card, job, key).await else { return };
        let endpoint = match job.way {
            Way::Cancel | Way::CancelLater => self.endpoint(job.side),
            _ => None,
        };
        let finished = match endpoint {
            None => finish.await,
            Some(endpoint) => {
                self.book.borrow_mut().cancels(key);
                if self.setting.faults == Faults::Killing {
                    // Operations of a dead endpoint complete when it closes, so the task must drop
                    // it.
                    let _ = endpoint.cancel(key);
                    drop(endpoint);
                    finish.await
                } else {
                    finish.cancel(&endpoint).await
                }
            }
        };
        self.is_finished(key, finished, job.way == Way::Shared);
    }

    fn is_rejected(&self, rejected: &Rejected<Memory>, id: usize) {
        assert_eq!((rejected.value.id, drops(id)), (id, 0), "it comes back");
        self.is_refused(rejected.error);
    }

    fn is_finished(&self, key: OpKey, finished: Result<Done<Memory>, CqError>, shared: bool) {
        match finished {
            Ok(done) => {
                assert_eq!(done.key(), key);
                self.book.borrow_mut().done(done);
            }
            Err(error) => self.is_not_waited_for(key, error, shared),
        }
    }

    async fn finish(&self, card: &Card, job: Job, key: OpKey) -> Option<Finish<'static, S, Memory>> {
        if !matches!(job.way, Way::IntoKey | Way::CancelLater) {
            self.hold(card, job.way, key).await;
            return Some(self.driver.finish(key));
        }
        let mut first = self.driver.finish(key);
        if let Poll::Ready(finished) = once(&mut first).await {
            self.is_finished(key, finished, false);
            return None;
        }
        if job.way == Way::CancelLater {
            self.pause(card, key).await;
            return Some(first);
        }
        self.pause(card, key).await;
        assert_eq!(first.into_key(), key);
        self.hold(card, Way::FinishLater, key).await;
        Some(self.driver.finish(key))
    }

    async fn hold(&self, card: &Card, way: Way, key: OpKey) {
        let held = Held { ground: self, key };
        match way {
            Way::Shared => {
                self.published.set(Some(key));
                self.pause(card, key).await;
            }
            Way::FinishLater => self.pause(card, key).await,
            _ => {}
        }
        held.let_go();
    }

    async fn pause(&self, card: &Card, key: OpKey) {
        card.is_at(At::Busy);
        next_round().await;
        card.is_at(At::End(key));
    }

    async fn fetch(&self, card: &Card, job: Job) {
        let operand = job.len as u64;
        let key = self.retry(card, job, Kind::Fetch, |endpoint, peer| {
            let key = endpoint.fetch_value(peer, &self.remote, NUMBER_AT, self.add, operand)?;
            self.book.borrow_mut().adds(key, operand);
            Ok(key)
        });
        let Some(key) = key.await else { return };
        match self.driver.finish_value(key).await {
            Ok(fetched) => self.fetched(&fetched),
            Err(error) => self.is_not_waited_for(key, error, job.way == Way::Shared),
        }
    }

    async fn peek(&self, card: &Card, job: Job) {
        let tag = TagMatch::exact(Tag(job.tag.unwrap_or(1)));
        let key = self.retry(card, job, Kind::Peek(job.side), |endpoint, _| endpoint.tagged_peek(Source::Any, tag));
        let Some(key) = key.await else { return };
        match self.driver.finish_peek(key).await {
            Ok(peek) => self.answer(&peek),
            Err(error) => {
                let closing = self.book.borrow().closing;
                self.is_not_waited_for(key, error, job.way == Way::Shared || closing);
            }
        }
    }

    async fn retry(
        &self,
        card: &Card,
        job: Job,
        kind: Kind,
        mut post: impl FnMut(&Endpoint<'static, S, Memory>, Peer) -> Result<OpKey, PostError>,
    ) -> Option<OpKey> {
        card.is_at(At::Room);
        let posted = self.driver.retry(|| {
            card.tries.set(card.tries.get() + 1);
            let key = post(&self.endpoint(job.side).ok_or(CLOSED)?, self.peers[job.side])?;
            self.book.borrow_mut().posted(key, kind, None);
            card.is_at(At::End(key));
            Ok(key)
        });
        match posted.await {
            Ok(key) => {
                self.hold(card, job.way, key).await;
                Some(key)
            }
            Err(error) => {
                self.is_refused(error);
                None
            }
        }
    }

    async fn join(&self, card: &Card, job: Job) {
        let Some(key) = self.published.get() else { return };
        card.is_at(At::Joined(key));
        match job.tag {
            None => self.is_finished(key, self.driver.finish(key).await, true),
            Some(1) => match self.driver.finish_value(key).await {
                Ok(fetched) => self.fetched(&fetched),
                Err(error) => self.is_not_waited_for(key, error, true),
            },
            Some(_) => match self.driver.finish_peek(key).await {
                Ok(peek) => self.answer(&peek),
                Err(error) => self.is_not_waited_for(key, error, true),
            },
        }
    }
}
