use std::boxed::Box;
use std::vec::Vec;

use super::*;

fn faults(place: NonNull<Place>) -> usize {
    let (mut child, mut before, mut count) = (at(place).child.get(), place, 0);
    while let Some(link) = child {
        count += usize::from(at(link).is_before(at(place)) || at(link).before.get() != Some(before));
        count += faults(link);
        (before, child) = (link, at(link).after.get());
    }
    count
}

#[test]
fn places_come_out_by_deadline_and_then_as_they_were_added_whatever_leaves_between() {
    let mut random = 1u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % below
    };
    for _ in 0..200 {
        let heap = Heap::new();
        let places: Vec<Pin<Box<Place>>> = (0..64).map(|_| Box::pin(Place::new())).collect();
        let mut model: Vec<(u64, u64, usize)> = Vec::new();
        let mut added = 0;
        for _ in 0..300 {
            let index = usize::try_from(next(64)).expect("small");
            match places[index].state() {
                State::Waiting if next(3) == 0 => {
                    heap.remove(&places[index]);
                    model.retain(|(.., other)| *other != index);
                }
                State::Waiting => {
                    let now = next(20);
                    while heap.take_due(Duration::from_secs(now)).is_some() {
                        model.sort_unstable();
                        assert!(model[0].0 <= now);
                        assert_eq!(places[model[0].2].state(), State::Due);
                        model.remove(0);
                    }
                }
                State::Out | State::Due => {
                    let deadline = next(20);
                    // SAFETY: the place is used with this heap only, and all are removed below.
                    unsafe { heap.add(places[index].as_ref(), Duration::from_secs(deadline)) };
                    added += 1;
                    model.push((deadline, added, index));
                }
            }
            model.sort_unstable();
            assert_eq!(heap.earliest(), model.first().map(|(deadline, ..)| Duration::from_secs(*deadline)));
            assert_eq!(heap.first.get().map_or(0, faults), 0);
        }
        for (.., index) in model {
            assert!(heap.take_due(Duration::MAX).is_some());
            assert_eq!(places[index].state(), State::Due);
        }
        assert!(heap.take_due(Duration::MAX).is_none());
    }
}
