//! Stories of deferred work, and their oracle: a list in the order of addition.

use loom_deferred::work_table::{Phase, Place, WorkKey, WorkTable};

const PLACES: usize = 6;
/// Values of three counters, by name.
type Counters = [u64; 3];

#[derive(Clone, Copy, Debug)]
pub enum Step {
    Add {
        counter: usize,
        threshold: u64,
    },
    Count {
        counter: usize,
        by: u64,
    },
    /// Takes due work out of a list, and does this with it.
    Try {
        list: u32,
        then: Then,
    },
    /// Ends the work that was added this number of additions before.
    End(usize),
    Cancel(usize),
    Flush(Option<usize>),
    TakeReturned,
    /// Takes out the work that was added this number of additions before.
    #[allow(dead_code, reason = "the fuzz target, which includes this file, takes from the whole list")]
    TakeReturnedOf(usize),
}

#[derive(Clone, Copy, Debug)]
pub enum Then {
    PutBack,
    Start,
    GiveUp,
    End,
}

/// Work in the model.
#[derive(Clone, Debug)]
struct Piece {
    key: WorkKey,
    number: usize,
    counter: usize,
    threshold: u64,
    phase: Phase,
}

#[derive(Default)]
struct Model {
    /// Pieces in the order of addition.
    pieces: Vec<Piece>,
    returned: Vec<usize>,
    counters: Counters,
}

impl Model {
    /// Due work of a counter: the first with the lowest threshold.
    fn due(&self, counter: usize) -> Option<usize> {
        let waiting = self.pieces.iter().filter(|piece| piece.counter == counter && piece.phase == Phase::Waiting);
        // The first one, if several have the lowest threshold.
        let first = waiting.min_by_key(|piece| piece.threshold)?;
        (first.threshold <= self.counters[counter]).then_some(first.number)
    }

    fn at(&mut self, number: usize) -> &mut Piece {
        self.pieces.iter_mut().find(|piece| piece.number == number).unwrap()
    }

    fn waits_for(&self, counter: usize) -> bool {
        self.pieces.iter().any(|piece| piece.counter == counter && piece.phase == Phase::Waiting)
    }
}

type Table = WorkTable<Vec<Place<usize, usize>>>;

/// Checks that a counter returns exactly when its last work has ended.
fn lets_go(model: &Model, counter: usize, last: Option<usize>) {
    assert_eq!(last, (!model.waits_for(counter)).then_some(counter));
}

pub fn play(steps: &[Step]) {
    let mut table: Table = WorkTable::new((0..PLACES).map(|number| Place::free(number, PLACES)).collect());
    let mut model = Model::default();
    let mut keys: Vec<WorkKey> = Vec::new();
    for step in steps {
        let back = |count: usize| keys.len().checked_sub(count + 1).map(|at| (at, keys[at]));
        match *step {
            Step::Add { counter, threshold } => {
                let vacant = table.vacant();
                assert_eq!(vacant.is_some(), model.pieces.len() < PLACES);
                let Some(vacant) = vacant else { continue };
                let number = keys.len();
                let key = vacant.add((counter, threshold), |a, b| a == b, number);
                assert!(!keys.contains(&key), "a key is given out once");
                keys.push(key);
                model.pieces.push(Piece { key, number, counter, threshold, phase: Phase::Waiting });
            }
            Step::Count { counter, by } => model.counters[counter] += by,
            Step::Try { list, then } => {
                let mut of = None;
                let taken = table.take_due(list, |counter| {
                    of = Some(*counter);
                    model.counters[*counter]
                });
                let expected = of.and_then(|counter| model.due(counter));
                assert_eq!(taken.map(|(_, number)| number), expected);
                let (Some((key, number)), Some(counter)) = (taken, of) else { continue };
                assert_eq!(key, keys[number]);
                assert_eq!(table.phase(key), Some(Phase::TakenOut));
                assert!(table.take_due(list, |_| u64::MAX).is_none(), "nothing goes past what is taken out");
                assert_eq!(table.cancel(key, |_| ()), Err(Some(Phase::TakenOut)));
                match then {
                    Then::PutBack => table.put_back(key, number),
                    Then::Start => {
                        model.at(number).phase = Phase::Started;
                        lets_go(&model, counter, table.start(key, number));
                    }
                    Then::GiveUp => {
                        model.at(number).phase = Phase::Returned;
                        model.returned.push(number);
                        lets_go(&model, counter, table.give_up(key, number));
                    }
                    Then::End => {
                        model.pieces.retain(|piece| piece.number != number);
                        let (value, last) = table.end(key);
                        assert_eq!(value, None, "it is taken out");
                        lets_go(&model, counter, last);
                    }
                }
            }
            Step::End(count) => {
                let Some((number, key)) = back(count) else { continue };
                let started = model.pieces.iter().any(|piece| piece.key == key && piece.phase == Phase::Started);
                assert_eq!(table.started_at(key.index()) == Some(key), started);
                assert_eq!(table.end(key), (started.then_some(number), None));
                model.pieces.retain(|piece| !(started && piece.key == key));
            }
            Step::Cancel(count) => {
                let Some((number, key)) = back(count) else { continue };
                let phase = model.pieces.iter().find(|piece| piece.key == key).map(|piece| piece.phase);
                let cancelled = table.cancel(key, |value| assert_eq!(*value, number));
                if phase == Some(Phase::Waiting) {
                    model.at(number).phase = Phase::Returned;
                    model.returned.push(number);
                    lets_go(
                        &model,
                        model.pieces.iter().find(|piece| piece.key == key).unwrap().counter,
                        cancelled.unwrap(),
                    );
                } else {
                    assert_eq!(cancelled, Err(phase));
                }
            }
            Step::Flush(counter) => {
                let mut flushed = Vec::new();
                while let Some((key, last)) =
                    table.flush(|known| counter.is_none_or(|counter| counter == *known), |_| ())
                {
                    let piece = model.pieces.iter_mut().find(|piece| piece.key == key).unwrap();
                    assert_eq!(piece.phase, Phase::Waiting);
                    piece.phase = Phase::Returned;
                    let (number, of, threshold) = (piece.number, piece.counter, piece.threshold);
                    model.returned.push(number);
                    lets_go(&model, of, last);
                    flushed.push((of, threshold, number));
                }
                for of in 0..3 {
                    assert!(counter.is_some_and(|counter| counter != of) || !model.waits_for(of));
                    assert!(flushed.iter().filter(|piece| piece.0 == of).is_sorted(), "in order: {flushed:?}");
                }
            }
            Step::TakeReturned => {
                let expected = (!model.returned.is_empty()).then(|| model.returned.remove(0));
                assert_eq!(table.take_returned(), expected.map(|number| (keys[number], number)));
                model.pieces.retain(|piece| Some(piece.number) != expected);
            }
            Step::TakeReturnedOf(count) => {
                let Some((number, key)) = back(count) else { continue };
                let at = model.returned.iter().position(|returned| *returned == number);
                assert_eq!(table.take_returned_of(key), at.map(|at| model.returned.remove(at)));
                model.pieces.retain(|piece| at.is_none() || piece.number != number);
            }
        }
        assert_eq!((table.len(), table.is_empty()), (model.pieces.len(), model.pieces.is_empty()));
        for (number, key) in keys.iter().enumerate() {
            let phase = model.pieces.iter().find(|piece| piece.key == *key).map(|piece| piece.phase);
            assert_eq!(table.phase(*key), phase);
            assert_eq!(table.value(*key).copied(), phase.map(|_| number));
        }
        let waited_for = (0..3).filter(|counter| model.waits_for(*counter)).count();
        assert!(table.lists() as usize >= waited_for && table.lists() as usize <= PLACES);
    }
}
