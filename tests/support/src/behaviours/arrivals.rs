//! Immediate data as named fields, and counts of parts of transfers by it.

use loom_core::engine::arrivals::Arrivals;
use loom_core::error::PostError;
use loom_core::immediate::Layout;
use loom_core::info::Info;
use loom_core::mr::Mr;
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, ImmediateData};
use loom_core::{RangeError, data_layout};

use crate::behaviours::needs::{Behaviour, RMA};
use crate::behaviours::pair::{on_pair, pattern, room};
use crate::behaviours::rma::contents;
use crate::memory::allocator;

pub fn cases<T: Transport + 'static>() -> Vec<Behaviour<T>> {
    vec![
        ("parts_of_transfers_are_counted_by_their_immediate_data", RMA, parts_are_counted),
        ("layout_is_refused_where_it_does_not_fit", RMA, layout_is_refused_where_it_does_not_fit),
    ]
}

data_layout! {
    /// Fields of the maximum width over InfiniBand.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Part {
        index: u8 = 6,
        last: bool = 1,
        transfer: u32 = 25,
    }
}

data_layout! {
    /// Fields that exceed the four bytes of a provider.
    struct Wide {
        number: u64 = 33,
    }
}

const TRANSFERS: u32 = 3;
const PARTS: u8 = 5;
const LEN: usize = 256;

/// Counts interleaved parts of several transfers. Two waits per transfer: for half of the parts and
/// for all.
fn parts_are_counted<T: Transport + 'static>(info: &Info<T>) {
    info.carries::<Part>().expect("four bytes");
    let arrivals = Arrivals::open_in(TRANSFERS as usize, 2 * TRANSFERS as usize, allocator()).expect("a table");
    on_pair(info, |pair| {
        pair.warm_up();
        let len = LEN * usize::from(PARTS) * TRANSFERS as usize;
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
        let mr = Mr::open_in(pair.domain, room(len), access, allocator()).expect("region");
        let half = u64::from(PARTS / 2);
        for transfer in 0..u64::from(TRANSFERS) {
            arrivals.wait_for(transfer, u64::from(PARTS)).expect("there is room");
            // The first one's early parts arrive without a wait for them.
            if transfer > 0 {
                arrivals.wait_for(transfer, half).expect("there is room");
            }
        }
        let mut expected = room(len);
        let mut told = Vec::new();
        for index in 0..PARTS {
            for transfer in (0..TRANSFERS).rev() {
                let at = LEN * (usize::from(index) + usize::from(PARTS) * transfer as usize);
                let bytes = pattern(LEN, at);
                expected[at..at + LEN].copy_from_slice(&bytes);
                let data = Part { index, last: index + 1 == PARTS, transfer }.encode().expect("small numbers");
                let post = |buf| pair.a.write_data(pair.to_b, &mr.remote(), at as u64, data, buf);
                let written = pair.post(bytes, post);
                let event = pair.remote_event();
                let part = Part::decode(event.data().expect("it has some")).expect("as it was sent");
                assert_eq!((part.transfer, part.index, part.last), (transfer, index, index + 1 == PARTS));
                arrivals.count(part.transfer.into()).expect("a transfer of this table");
                pair.finish(written);
                told.extend(core::iter::from_fn(|| arrivals.poll()).map(|told| (told.value, told.threshold)));
            }
            if index + 1 == PARTS - 1 {
                arrivals.wait_for(0, half).expect("there is room");
                let late = arrivals.poll().expect("they have come before");
                told.push((late.value, late.threshold));
            }
        }
        let all = u64::from(PARTS);
        assert_eq!(told, [(2, half), (1, half), (0, half), (2, all), (1, all), (0, all)]);
        assert!(contents(&mr) == expected, "the bytes are there when the parts are counted");
        assert!(Part::decode(ImmediateData(1 << 32)).is_err(), "it does not show less than there is");
    });
}

fn layout_is_refused_where_it_does_not_fit<T: Transport + 'static>(info: &Info<T>) {
    let limit = info.attributes().domain.cq_data_size;
    let fits = info.carries::<Wide>();
    assert_eq!(fits, if limit > 4 { Ok(()) } else { Err(RangeError::TooWide { width: 33, limit }) });
    let too_large = Part { index: 64, last: false, transfer: 0 }.encode();
    assert_eq!(too_large, Err(RangeError::ValueTooLarge { field: "index", width: 6 }));
    on_pair(info, |pair| {
        pair.warm_up();
        let mr = Mr::open_in(pair.domain, room(64), Access::REMOTE_WRITE, allocator()).expect("region");
        let data = Wide { number: 1 << 32 }.encode().expect("33 bits");
        if fits.is_err() {
            let refused = pair.a.write_data(pair.to_b, &mr.remote(), 0, data, pattern(64, 1)).expect_err("too wide");
            assert_eq!((refused.error, refused.value), (PostError::DataWidth { limit }, pattern(64, 1)));
            return;
        }
        let written = pair.post(pattern(64, 1), |buf| pair.a.write_data(pair.to_b, &mr.remote(), 0, data, buf));
        let arrived = pair.remote_event().data().expect("it has some");
        assert_eq!(Wide::decode(arrived).map(|wide| wide.number), Ok(1 << 32));
        pair.finish(written);
    });
}
