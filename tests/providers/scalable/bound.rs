//! Objects that contexts are bound to besides their queue, and posts of receive contexts other than
//! messages.

use std::time::Instant;

use loom_core::av::{Av, AvAttr};
use loom_core::completion::{Completion, Found};
use loom_core::counter::{Counter, CounterAttr};
use loom_core::cq::{Cq, CqAttr};
use loom_core::domain::Domain;
use loom_core::endpoint::Source;
use loom_core::endpoint::{Binding, Contexts, ScalableEndpoint};
use loom_core::engine::op_table::OpKey;
use loom_core::error::{OpenError, PostError};
use loom_core::info::Hints;
use loom_core::mr::Mr;
use loom_core::vocabulary::{Access, Caps, Counted, EndpointOption, Tag, TagMatch};

use super::{LIMIT, Queue, T, caps, exchange, finish, info, pattern, post, sockets_hints, two_of_each};

pub(crate) fn cases() -> crate::scalable::report::Cases {
    vec![
        ("contexts_are_counted_each_by_itself", contexts_are_counted_each_by_itself),
        ("contexts_count_operations_of_their_direction", contexts_count_operations_of_their_direction),
        ("receive_contexts_peek_at_their_own_messages", receive_contexts_peek_at_their_own_messages),
        ("a_buffer_of_a_receive_context_takes_many_messages", a_buffer_of_a_receive_context_takes_many_messages),
    ]
}

fn contexts_are_counted_each_by_itself() {
    let hints = Hints { caps: caps() | Caps::RMA_EVENT, ..sockets_hints() };
    let info = T::query(&hints).unwrap().next().unwrap();
    let domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, AvAttr { rx_ctx_bits: 1, ..AvAttr::new(4) }).unwrap();
    let [sends, writes, received, written, elsewhere] =
        [(); 5].map(|()| Counter::open(&domain, CounterAttr::default()).unwrap());
    let [a, b] = [(); 2].map(|()| ScalableEndpoint::open(&av, &info, two_of_each()).unwrap());
    let cq: &Queue<'_> = &Cq::open(&domain, CqAttr::new(32)).unwrap();
    let counted = Binding::to(&a).counter(Counted::SEND, &sends).counter(Counted::WRITE, &writes);
    let tx = cq.tx_context(counted, 0).unwrap();
    let other_tx = cq.tx_context(Binding::to(&a).counter(Counted::SEND | Counted::WRITE, &elsewhere), 1).unwrap();
    let counted = Binding::to(&b).counter(Counted::RECV, &received).counter(Counted::REMOTE_WRITE, &written);
    let rx = cq.rx_context(counted, 1).unwrap();
    let other_rx = cq.rx_context(Binding::to(&b).counter(Counted::RECV, &elsewhere), 0).unwrap();
    let to = av.insert(&b.address().unwrap()).unwrap();

    for round in 0..5 {
        exchange(&tx, (to, 1), &rx, 300, round);
    }
    exchange(&other_tx, (to, 0), &other_rx, 300, 9);
    let region = Mr::open(&domain, vec![0; 4096], Access::REMOTE_WRITE).unwrap();
    let remote = region.remote();
    for round in 0..3 {
        let key = post(cq, pattern(64, round), |buf| tx.write(to.rx_context(1), &remote, 0, buf));
        finish(cq, key);
    }
    let deadline = Instant::now() + LIMIT;
    let counters = [&sends, &writes, &received, &written, &elsewhere];
    while counters.map(Counter::read) != [5, 3, 5, 3, 2] {
        assert!(Instant::now() < deadline, "{:?}", counters.map(Counter::read));
        cq.progress().unwrap();
    }
    assert_eq!(counters.map(Counter::read_error), [0; 5]);
}

fn contexts_count_operations_of_their_direction() {
    let info = info();
    let domain = Domain::open(&info).unwrap();
    let other_domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, AvAttr { rx_ctx_bits: 1, ..AvAttr::new(4) }).unwrap();
    let counter = Counter::open(&domain, CounterAttr::default()).unwrap();
    let foreign = Counter::open(&other_domain, CounterAttr::default()).unwrap();
    let endpoint = ScalableEndpoint::open(&av, &info, Contexts { tx: 1, rx: 1 }).unwrap();
    let cq: &Queue<'_> = &Cq::open(&domain, CqAttr::new(8)).unwrap();
    let of = |counted, counter| Binding::to(&endpoint).counter(counted, counter);
    assert_eq!(cq.tx_context(of(Counted::RECV, &counter), 0).unwrap_err(), OpenError::Counters);
    assert_eq!(cq.rx_context(of(Counted::SEND, &counter), 0).unwrap_err(), OpenError::Counters);
    let twice = of(Counted::SEND, &counter).counter(Counted::SEND, &counter);
    assert_eq!(cq.tx_context(twice, 0).unwrap_err(), OpenError::Counters);
    assert_eq!(cq.tx_context(of(Counted::SEND, &foreign), 0).unwrap_err(), OpenError::OtherDomain);
    // They are still free.
    cq.tx_context(of(Counted::SEND, &counter), 0).unwrap();
    cq.rx_context(of(Counted::RECV, &counter), 0).unwrap();
}

fn answer(cq: &Queue<'_>, key: OpKey) -> Option<Found> {
    cq.wait_peek(key, Instant::now() + LIMIT).unwrap().expect("an answer in time").message().unwrap()
}

fn receive_contexts_peek_at_their_own_messages() {
    let info = info();
    let domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, AvAttr { rx_ctx_bits: 1, ..AvAttr::new(4) }).unwrap();
    let [a, b] = [(); 2].map(|()| ScalableEndpoint::open(&av, &info, two_of_each()).unwrap());
    let cq: &Queue<'_> = &Cq::open(&domain, CqAttr::new(32)).unwrap();
    let tx = cq.tx_context(&a, 0).unwrap();
    let [rx, other] = [0, 1].map(|index| cq.rx_context(&b, index).unwrap());
    let to = av.insert(&b.address().unwrap()).unwrap();
    let sent =
        [1, 2, 3].map(|tag| post(cq, pattern(8, tag), |buf| tx.tagged_send(to.rx_context(0), Tag(tag as u64), buf)));
    let find = |ask: &dyn Fn() -> Result<OpKey, PostError>| {
        let deadline = Instant::now() + LIMIT;
        while Instant::now() < deadline {
            if let Some(found) = answer(cq, ask().unwrap()) {
                return found;
            }
        }
        panic!("no message within {LIMIT:?}");
    };
    for tag in [3, 2, 1] {
        assert_eq!(find(&|| rx.tagged_peek(Source::Any, Tag(tag))).tag, Tag(tag));
    }
    let elsewhere = other.tagged_peek(Source::Any, TagMatch::ANY).unwrap();
    assert!(answer(cq, elsewhere).is_none(), "none of them is the other context's");
    let claimed = find(&|| rx.tagged_peek_claim(Source::Any, Tag(1))).claim.unwrap();
    let thrown = find(&|| rx.tagged_peek_claim(Source::Any, Tag(2))).claim.unwrap();
    find(&|| rx.tagged_peek_discard(Source::Any, Tag(3)));
    assert_eq!(other.tagged_claim(claimed, vec![0; 8]).unwrap_err().error, PostError::UnknownClaim);
    let fetched = post(cq, vec![0; 8], |buf| rx.tagged_claim(claimed, buf));
    assert_eq!(finish(cq, fetched).0, pattern(8, 1));
    answer(cq, rx.tagged_discard(thrown).unwrap());
    for rx in [&rx, &other] {
        assert!(answer(cq, rx.tagged_peek(Source::Any, TagMatch::ANY).unwrap()).is_none(), "nothing is left");
    }
    for sent in sent {
        finish(cq, sent);
    }
}

fn a_buffer_of_a_receive_context_takes_many_messages() {
    let hints = Hints { caps: caps() | Caps::MULTI_RECV, ..sockets_hints() };
    let info = T::query(&hints).unwrap().next().unwrap();
    let domain = Domain::open(&info).unwrap();
    let av = Av::open(&domain, AvAttr { rx_ctx_bits: 1, ..AvAttr::new(4) }).unwrap();
    let [a, b] = [(); 2].map(|()| ScalableEndpoint::open(&av, &info, two_of_each()).unwrap());
    let cq: &Queue<'_> = &Cq::open(&domain, CqAttr::new(32)).unwrap();
    let tx = cq.tx_context(&a, 0).unwrap();
    let rx = cq.rx_context(Binding::to(&b).option(EndpointOption::MIN_MULTI_RECV, 100), 1).unwrap();
    assert_eq!(rx.option(EndpointOption::MIN_MULTI_RECV), Ok(100));
    let to = av.insert(&b.address().unwrap()).unwrap();
    let refused = rx.multi_recv(Source::Any, vec![0; 400]).unwrap_err();
    assert_eq!((refused.error, refused.value.len()), (PostError::NotSafe, 400));
    // SAFETY: no message is longer than the minimum room, and the receive is not cancelled.
    let key = unsafe { rx.multi_recv_unchecked(Source::Any, None, vec![0; 400]) }.unwrap();
    let sent: Vec<_> = (0..4).map(|seed| post(cq, pattern(100, seed), |buf| tx.send(to.rx_context(1), buf))).collect();
    let (mut pieces, mut over) = (0, 0);
    let deadline = Instant::now() + LIMIT;
    let mut back = None;
    while over < sent.len() || back.is_none() {
        assert!(Instant::now() < deadline, "{pieces} messages");
        match cq.poll().unwrap() {
            Some(Completion::Piece(piece)) => {
                assert_eq!(piece.bytes(), pattern(100, pieces));
                pieces += 1;
            }
            Some(Completion::Op(done)) if done.key() == key => back = Some(done.into_buf()),
            Some(Completion::Op(done)) => {
                done.result().unwrap();
                over += 1;
            }
            Some(other) => panic!("not expected: {other:?}"),
            None => {}
        }
    }
    assert_eq!((pieces, back.map(|buf| buf.len())), (4, Some(400)));
}
