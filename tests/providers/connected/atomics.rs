//! Atomic operations over a connection.

use loom_core::atomic::{BaseOp, CompareOp, FetchOp};
use loom_core::endpoint::ThePeer;
use loom_core::error::PostError;
use loom_core::info::{Hints, Info};
use loom_core::mr::Mr;
use loom_core::vocabulary::{Access, Caps, EndpointAttributes, EndpointType, Errno};
use loom_fabric::ofi::Ofi;

use super::Case;
use super::sides::{Bytes, LIMIT, Sides, T, pattern, with_sides};

pub(crate) fn cases() -> Vec<(&'static str, Case)> {
    vec![("atomics_change_the_region_or_are_refused", atomics_change_the_region_or_are_refused)]
}

/// Returns an info of the same provider with atomic operations, if it has them over connections.
fn with_atomics(info: &Info<T>) -> Option<Info<T>> {
    let hints = Hints {
        caps: Caps::MSG | Caps::RMA | Caps::ATOMIC,
        endpoint_attr: EndpointAttributes::of(EndpointType::MSG),
        provider: Some(info.provider()),
        node: Some("127.0.0.1"),
        listen: true,
        ..Hints::default()
    };
    match Ofi::query(&hints) {
        Ok(mut infos) => infos.next(),
        Err(error) if error.is_no_match() => None,
        Err(error) => panic!("{error:#}"),
    }
}

fn atomics_change_the_region_or_are_refused(info: &Info<T>) {
    let Some(info) = with_atomics(info) else {
        println!("{} has no atomic operations over connections", info.provider());
        return with_sides(info, |sides| {
            let refused = sides.domain.query_atomic(FetchOp::<u64>::SUM);
            assert_eq!(refused.map(|_| ()), Err(Errno::EOPNOTSUPP));
        });
    };
    with_sides(&info, change_words);
}

fn change_words(sides: &Sides<'_, '_>) {
    const WORDS: usize = 8;
    let (server, client) = sides.pair();
    let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
    // One word longer, so that an aligned place for all of them exists.
    let region = Mr::open_for(sides.domain, &server, pattern(8 * (WORDS + 1), 3), access).expect("a region");
    let remote = region.remote();
    let begin = region.window().as_ptr().align_offset(8);
    let at = |word: usize| (begin + 8 * word) as u64;
    let word = |word: usize| {
        let mut bytes = [0; 8];
        region.window().copy_to(begin + 8 * word, &mut bytes).expect("within the region");
        u64::from_ne_bytes(bytes)
    };
    let mut expected: Vec<u64> = (0..WORDS).map(word).collect();
    let deadline = || std::time::Instant::now() + LIMIT;

    let add = sides.domain.query_atomic(FetchOp::<u64>::SUM).expect("granted");
    for round in 1..=20_u64 {
        let key =
            sides.cq.retry(deadline(), || client.fetch_value(ThePeer, &remote, at(1), add, round)).expect("posted");
        let fetched = sides.cq.wait_value(key, deadline()).expect("the queue works").expect("in time");
        assert_eq!(fetched.value::<u64>().expect("it succeeds"), Some(expected[1]));
        expected[1] = expected[1].wrapping_add(round);
    }
    let swap = sides.domain.query_atomic(CompareOp::<u64>::CSWAP).expect("granted");
    for (compare, swaps) in [(expected[2].wrapping_add(1), false), (expected[2], true)] {
        let post = || client.compare_value(ThePeer, &remote, at(2), swap, compare, 77);
        let key = sides.cq.retry(deadline(), post).expect("posted");
        let fetched = sides.cq.wait_value(key, deadline()).expect("the queue works").expect("in time");
        assert_eq!(fetched.value::<u64>().expect("it succeeds"), Some(expected[2]));
        if swaps {
            expected[2] = 77;
        }
    }
    // Operands of a buffer, for several words.
    let xor = sides.domain.query_atomic(BaseOp::<u64>::BXOR).expect("granted");
    let operands: Bytes = [1_u64, 2, 3, 4].into_iter().flat_map(u64::to_ne_bytes).collect();
    let key = sides.post(operands, |buf| client.atomic(ThePeer, &remote, at(4), xor, buf));
    sides.finish(key);
    for (operand, word) in (1..).zip(&mut expected[4..]) {
        *word ^= operand;
    }
    // A fetch over the same connection completes after all of them.
    let key = sides.cq.retry(deadline(), || client.fetch_value(ThePeer, &remote, at(7), add, 0)).expect("posted");
    let last = sides.cq.wait_value(key, deadline()).expect("the queue works").expect("in time");
    assert_eq!(last.value::<u64>().expect("it succeeds"), Some(expected[7]));
    assert_eq!((0..WORDS).map(word).collect::<Vec<_>>(), expected);

    let outside = client.fetch_value(ThePeer, &remote, 8 * (WORDS as u64 + 1), add, 1);
    assert_eq!(outside, Err(PostError::OutOfBounds));
    // The region is bound to the server's endpoint, and closes first.
    drop(region);
    drop((server, client));
}
