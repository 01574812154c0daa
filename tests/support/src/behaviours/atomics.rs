//! Atomic operations: each of every datatype compared with a plain computation, and refusals.

use loom_core::atomic::{BaseOp, CompareOp, Complex, Element, FetchOp, Integer, Operation, Ordered, ReadOp};
use loom_core::domain::Domain;
use loom_core::endpoint::AtomicOptions;
use loom_core::endpoint::Granted;
use loom_core::error::PostError;
use loom_core::info::Info;
use loom_core::mr::{Mr, RemoteRegion};
use loom_core::transport::Transport;
use loom_core::vocabulary::{Access, AtomicOp, Errno};

use crate::behaviours::needs::{ATOMIC, Behaviour};
use crate::behaviours::pair::{Bytes, OrCut, Pair, is_tested, limit, on_pair, pattern, retry, room};
use crate::memory::allocator;

pub fn cases<T: Transport + 'static>() -> Vec<Behaviour<T>> {
    vec![
        ("every_atomic_computes_its_operation", ATOMIC, every_atomic_computes_its_operation),
        ("values_need_no_buffer", ATOMIC, values_need_no_buffer),
        ("injected_atomic_is_done", ATOMIC, injected_atomic_is_done),
        ("atomic_of_parts_takes_them_in_order", ATOMIC, atomic_of_parts_takes_them_in_order),
        ("invalid_atomics_are_refused", ATOMIC, invalid_atomics_are_refused),
        ("atomics_need_the_access_of_the_manual", ATOMIC, atomics_need_the_access_of_the_manual),
        ("closed_endpoint_gives_atomics_back", ATOMIC, closed_endpoint_gives_atomics_back),
    ]
}

const PEER_ACCESS: Access = Access::REMOTE_READ.union(Access::REMOTE_WRITE);

/// An element with its bytes, sample values, and the plain computation.
trait Number: Element + PartialEq {
    fn write(self, out: &mut Vec<u8>);
    fn read(bytes: &[u8]) -> Self;
    /// Values in memory, operands, and compared values, of equal number.
    const SAMPLES: [[Self; 4]; 3];
    /// Result of an operation by `fi_atomic(3)`.
    fn expected(op: AtomicOp, value: Self, operand: Self, compare: Self) -> Self;
}

/// Computation for every number type. `$one` and `$zero` are those of logical operations.
fn of_all<N: PartialEq + Copy>(op: AtomicOp, [value, operand, compare]: [N; 3], [zero, one]: [N; 2]) -> N {
    let logical = |is: bool| if is { one } else { zero };
    match op {
        AtomicOp::LOR => logical(value != zero || operand != zero),
        AtomicOp::LAND => logical(value != zero && operand != zero),
        AtomicOp::LXOR => logical((value != zero) != (operand != zero)),
        AtomicOp::READ => value,
        AtomicOp::WRITE => operand,
        AtomicOp::CSWAP => {
            if compare == value {
                operand
            } else {
                value
            }
        }
        AtomicOp::CSWAP_NE => {
            if compare != value {
                operand
            } else {
                value
            }
        }
        other => panic!("{other} is not an operation of this type"),
    }
}

fn of_ordered<N: PartialOrd + Copy>(op: AtomicOp, values: [N; 3], constants: [N; 2]) -> N {
    let [value, operand, compare] = values;
    let swap = |is: bool| if is { operand } else { value };
    match op {
        AtomicOp::MIN => swap(operand < value),
        AtomicOp::MAX => swap(operand > value),
        AtomicOp::CSWAP_LE => swap(compare <= value),
        AtomicOp::CSWAP_LT => swap(compare < value),
        AtomicOp::CSWAP_GE => swap(compare >= value),
        AtomicOp::CSWAP_GT => swap(compare > value),
        _ => of_all(op, values, constants),
    }
}

macro_rules! integers {
    ($($Type:ty),+) => {$(
        impl Number for $Type {
            fn write(self, out: &mut Vec<u8>) {
                out.extend(self.to_ne_bytes());
            }

            fn read(bytes: &[u8]) -> Self {
                <$Type>::from_ne_bytes(bytes.try_into().expect("the bytes of one"))
            }

            // Values that overflow, and negative ones if the type has them.
            const SAMPLES: [[Self; 4]; 3] =
                [[<$Type>::MAX, 0, 7, !0], [5, 3, 0, <$Type>::MIN], [<$Type>::MAX, 1, 9, 0x55]];

            fn expected(op: AtomicOp, value: Self, operand: Self, compare: Self) -> Self {
                match op {
                    AtomicOp::SUM => value.wrapping_add(operand),
                    AtomicOp::PROD => value.wrapping_mul(operand),
                    AtomicOp::BOR => value | operand,
                    AtomicOp::BAND => value & operand,
                    AtomicOp::BXOR => value ^ operand,
                    AtomicOp::MSWAP => (operand & compare) | (value & !compare),
                    _ => of_ordered(op, [value, operand, compare], [0, 1]),
                }
            }
        }
    )+};
}

integers!(i8, u8, i16, u16, i32, u32, i64, u64, i128, u128);

macro_rules! floats {
    ($($Type:ty),+) => {$(
        impl Number for $Type {
            fn write(self, out: &mut Vec<u8>) {
                out.extend(self.to_ne_bytes());
            }

            fn read(bytes: &[u8]) -> Self {
                <$Type>::from_ne_bytes(bytes.try_into().expect("the bytes of one"))
            }

            const SAMPLES: [[Self; 4]; 3] = [[1.5, 0.0, -8.0, 3.25], [2.0, 4.0, 0.0, -0.5], [1.5, 1.0, -9.0, 4.0]];

            fn expected(op: AtomicOp, value: Self, operand: Self, compare: Self) -> Self {
                match op {
                    AtomicOp::SUM => value + operand,
                    AtomicOp::PROD => value * operand,
                    _ => of_ordered(op, [value, operand, compare], [0.0, 1.0]),
                }
            }
        }

        impl Number for Complex<$Type> {
            fn write(self, out: &mut Vec<u8>) {
                self.re.write(out);
                self.im.write(out);
            }

            fn read(bytes: &[u8]) -> Self {
                let (re, im) = bytes.split_at(bytes.len() / 2);
                Complex { re: Number::read(re), im: Number::read(im) }
            }

            const SAMPLES: [[Self; 4]; 3] = {
                const fn c(re: $Type, im: $Type) -> Complex<$Type> {
                    Complex { re, im }
                }
                [
                    [c(1.0, 2.0), c(0.0, 0.0), c(0.0, -1.0), c(3.0, 0.0)],
                    [c(0.5, -1.0), c(0.0, 2.0), c(0.0, 0.0), c(4.0, 4.0)],
                    [c(1.0, 2.0), c(0.0, 1.0), c(0.0, -1.0), c(3.0, 1.0)],
                ]
            };

            fn expected(op: AtomicOp, value: Self, operand: Self, compare: Self) -> Self {
                let ((a, b), (c, d)) = ((value.re, value.im), (operand.re, operand.im));
                match op {
                    AtomicOp::SUM => Complex { re: a + c, im: b + d },
                    AtomicOp::PROD => Complex { re: a * c - b * d, im: a * d + b * c },
                    _ => {
                        let [zero, one] = [0.0, 1.0].map(|re| Complex { re, im: 0.0 });
                        of_all(op, [value, operand, compare], [zero, one])
                    }
                }
            }
        }
    )+};
}

floats!(f32, f64);

fn bytes<N: Number>(lists: &[&[N]]) -> Bytes {
    let mut bytes = Vec::new();
    for number in lists.iter().flat_map(|list| list.iter()) {
        number.write(&mut bytes);
    }
    bytes.into()
}

fn numbers<N: Number>(bytes: &[u8]) -> Vec<N> {
    bytes.chunks_exact(size_of::<N>()).map(N::read).collect()
}

/// A region of numbers between two that stay unchanged.
struct Numbers<'p, 'q, 'd, T: Transport, N> {
    pair: &'p Pair<'q, 'd, T>,
    mr: Mr<'d, T, Bytes>,
    first: N,
}

impl<'p, 'q, 'd, T: Transport + 'static, N: Number> Numbers<'p, 'q, 'd, T, N> {
    fn new(pair: &'p Pair<'q, 'd, T>, values: &[N]) -> Self {
        let first = N::SAMPLES[0][3];
        let memory = bytes(&[&[first], values, &[first]]);
        assert!(memory.as_ptr().addr().is_multiple_of(size_of::<N>()), "the allocator aligns it");
        Numbers { pair, mr: Mr::open_in(pair.domain, memory, PEER_ACCESS, allocator()).expect("region"), first }
    }

    fn set(&self, values: &[N]) {
        self.mr.window().copy_from(size_of::<N>(), &bytes(&[values])).expect("as many as there are");
    }

    /// Waits until the numbers are these, and checks that their neighbours are unchanged.
    fn become_(&self, expected: &[N], what: &str) {
        let mut deadline = limit();
        let mut contents = room(self.mr.window().len());
        loop {
            self.mr.window().copy_to(0, &mut contents).expect("the whole window");
            let all = numbers::<N>(&contents);
            let (first, rest) = all.split_first().expect("there is one");
            let (last, these) = rest.split_last().expect("there is one");
            if these == expected {
                assert_eq!((first, last), (&self.first, &self.first), "{what}: the neighbours stay");
                return;
            }
            assert!(!loom_core::Deadline::passed(&mut deadline), "{what}: {these:?}, and not {expected:?}");
            self.pair.cq.progress().or_cut("the queue works");
        }
    }
}

/// Returns an operation if it is granted, and checks the refusal otherwise.
fn query<T: Transport + 'static, O: Operation>(domain: &Domain<'_, T>, op: O, wanted: usize) -> Option<Granted<O>> {
    match domain.query_atomic(op) {
        Ok(granted) => {
            assert!(granted.max_count() > 0);
            (granted.max_count() >= wanted).then_some(granted)
        }
        Err(errno) => {
            assert!([Errno::EOPNOTSUPP, Errno::EINVAL].contains(&errno), "{op:?}: {errno}");
            None
        }
    }
}

/// Opens a pair over a provider that has the operations of its info: `net` reports operations that
/// it lacks.
fn on_atomic_pair<T: Transport + 'static>(info: &Info<T>, test: impl FnOnce(&Pair<'_, '_, T>)) {
    on_pair(info, |pair| {
        pair.warm_up();
        match pair.domain.query_atomic(FetchOp::<u64>::SUM) {
            Ok(_) => test(pair),
            Err(errno) => {
                assert_eq!(errno, Errno::EOPNOTSUPP);
                crate::report::not_granted();
            }
        }
    });
}

/// Returns the operation that only reads, if it is granted.
fn look<T: Transport + 'static>(pair: &Pair<'_, '_, T>) -> Option<Granted<ReadOp<u64>>> {
    let granted = pair.domain.query_atomic(ReadOp::<u64>::READ).ok();
    if granted.is_none() {
        assert_eq!(pair.domain.info().provider(), "sm2");
        crate::report::partly(
            "loom refuses atomic reads, because they return no data \
            (`sm2-atomic-read-brings-nothing`)",
        );
    }
    granted
}

#[derive(Default)]
struct Tried {
    granted: usize,
    refused: usize,
}

fn base<T: Transport + 'static, N: Number>(target: &Numbers<'_, '_, '_, T, N>, op: BaseOp<N>, tried: &mut Tried) {
    let pair = target.pair;
    let Some(granted) = query(pair.domain, op, 4) else {
        tried.refused += 1;
        return;
    };
    tried.granted += 1;
    let [values, operands, _] = N::SAMPLES;
    target.set(&values);
    let (remote, size) = (target.mr.remote(), size_of::<N>());
    let key = pair.post(bytes(&[&operands]), |buf| pair.a.atomic(pair.to_b, &remote, size as u64, granted, buf));
    assert_eq!(pair.finish(key).0, bytes(&[&operands]), "the operands come back unchanged");
    let expected: Vec<N> =
        (0..4).map(|at| N::expected(op.atomic().op, values[at], operands[at], operands[at])).collect();
    target.become_(&expected, &format!("{op:?} of {}", N::DATATYPE));
}

fn fetch<T: Transport + 'static, N: Number>(target: &Numbers<'_, '_, '_, T, N>, op: FetchOp<N>, tried: &mut Tried) {
    let pair = target.pair;
    let Some(granted) = query(pair.domain, op, 4) else {
        tried.refused += 1;
        return;
    };
    tried.granted += 1;
    let [values, operands, other] = N::SAMPLES;
    target.set(&values);
    let (remote, size) = (target.mr.remote(), size_of::<N>());
    let key =
        pair.post(bytes(&[&operands, &other]), |buf| pair.a.atomic(pair.to_b, &remote, size as u64, granted, buf));
    assert_eq!(pair.finish(key).0, bytes(&[&operands, &values]), "{op:?} of {} brings the values", N::DATATYPE);
    let expected: Vec<N> =
        (0..4).map(|at| N::expected(op.atomic().op, values[at], operands[at], operands[at])).collect();
    target.become_(&expected, &format!("{op:?} of {}, fetched", N::DATATYPE));
}

fn compare<T: Transport + 'static, N: Number>(target: &Numbers<'_, '_, '_, T, N>, op: CompareOp<N>, tried: &mut Tried) {
    let pair = target.pair;
    let Some(granted) = query(pair.domain, op, 4) else {
        tried.refused += 1;
        return;
    };
    tried.granted += 1;
    let [values, operands, compared] = N::SAMPLES;
    target.set(&values);
    let (remote, size) = (target.mr.remote(), size_of::<N>());
    let key = pair.post(bytes(&[&operands, &compared, &operands]), |buf| {
        pair.a.atomic(pair.to_b, &remote, size as u64, granted, buf)
    });
    let expected = bytes(&[&operands, &compared, &values]);
    assert_eq!(pair.finish(key).0, expected, "{op:?} of {} brings the values", N::DATATYPE);
    let expected: Vec<N> =
        (0..4).map(|at| N::expected(op.atomic().op, values[at], operands[at], compared[at])).collect();
    target.become_(&expected, &format!("{op:?} of {}", N::DATATYPE));
}

fn read<T: Transport + 'static, N: Number>(target: &Numbers<'_, '_, '_, T, N>, tried: &mut Tried) {
    let pair = target.pair;
    let Some(granted) = query(pair.domain, ReadOp::<N>::READ, 4) else {
        tried.refused += 1;
        return;
    };
    tried.granted += 1;
    let [values, ..] = N::SAMPLES;
    target.set(&values);
    let (remote, size) = (target.mr.remote(), size_of::<N>());
    let key = pair.post(room(4 * size), |buf| pair.a.atomic(pair.to_b, &remote, size as u64, granted, buf));
    assert_eq!(pair.finish(key).0, bytes(&[&values]), "{} are read", N::DATATYPE);
    target.become_(&values, "a read changes nothing");
}

fn of_element<T: Transport + 'static, N: Number>(target: &Numbers<'_, '_, '_, T, N>) -> Tried {
    let mut tried = Tried::default();
    for op in [BaseOp::SUM, BaseOp::PROD, BaseOp::LOR, BaseOp::LAND, BaseOp::LXOR, BaseOp::WRITE] {
        base::<T, N>(target, op, &mut tried);
    }
    for op in [FetchOp::SUM, FetchOp::PROD, FetchOp::LOR, FetchOp::LAND, FetchOp::LXOR, FetchOp::WRITE] {
        fetch::<T, N>(target, op, &mut tried);
    }
    read::<T, N>(target, &mut tried);
    for op in [CompareOp::CSWAP, CompareOp::CSWAP_NE] {
        compare::<T, N>(target, op, &mut tried);
    }
    tried
}

fn of_ordered_element<T: Transport + 'static, N: Number + Ordered>(target: &Numbers<'_, '_, '_, T, N>) -> Tried {
    let mut tried = of_element::<T, N>(target);
    for op in [BaseOp::MIN, BaseOp::MAX] {
        base::<T, N>(target, op, &mut tried);
    }
    for op in [FetchOp::MIN, FetchOp::MAX] {
        fetch::<T, N>(target, op, &mut tried);
    }
    for op in [CompareOp::CSWAP_LE, CompareOp::CSWAP_LT, CompareOp::CSWAP_GE, CompareOp::CSWAP_GT] {
        compare::<T, N>(target, op, &mut tried);
    }
    tried
}

fn of_integer<T: Transport + 'static, N: Number + Integer>(target: &Numbers<'_, '_, '_, T, N>) -> Tried {
    let mut tried = of_ordered_element::<T, N>(target);
    for op in [BaseOp::BOR, BaseOp::BAND, BaseOp::BXOR] {
        base::<T, N>(target, op, &mut tried);
    }
    for op in [FetchOp::BOR, FetchOp::BAND, FetchOp::BXOR] {
        fetch::<T, N>(target, op, &mut tried);
    }
    compare::<T, N>(target, CompareOp::MSWAP, &mut tried);
    tried
}

fn every_atomic_computes_its_operation<T: Transport + 'static>(info: &Info<T>) {
    on_atomic_pair(info, |pair| {
        let all = [
            ("i8", of_integer(&Numbers::<T, i8>::new(pair, &Number::SAMPLES[0]))),
            ("u8", of_integer(&Numbers::<T, u8>::new(pair, &Number::SAMPLES[0]))),
            ("i16", of_integer(&Numbers::<T, i16>::new(pair, &Number::SAMPLES[0]))),
            ("u16", of_integer(&Numbers::<T, u16>::new(pair, &Number::SAMPLES[0]))),
            ("i32", of_integer(&Numbers::<T, i32>::new(pair, &Number::SAMPLES[0]))),
            ("u32", of_integer(&Numbers::<T, u32>::new(pair, &Number::SAMPLES[0]))),
            ("i64", of_integer(&Numbers::<T, i64>::new(pair, &Number::SAMPLES[0]))),
            ("u64", of_integer(&Numbers::<T, u64>::new(pair, &Number::SAMPLES[0]))),
            ("i128", of_integer(&Numbers::<T, i128>::new(pair, &Number::SAMPLES[0]))),
            ("u128", of_integer(&Numbers::<T, u128>::new(pair, &Number::SAMPLES[0]))),
            ("f32", of_ordered_element(&Numbers::<T, f32>::new(pair, &Number::SAMPLES[0]))),
            ("f64", of_ordered_element(&Numbers::<T, f64>::new(pair, &Number::SAMPLES[0]))),
            ("complex f32", of_element(&Numbers::<T, Complex<f32>>::new(pair, &Number::SAMPLES[0]))),
            ("complex f64", of_element(&Numbers::<T, Complex<f64>>::new(pair, &Number::SAMPLES[0]))),
        ];
        for (name, Tried { granted, refused }) in &all {
            println!("{}: {name}: {granted} operations, {refused} not granted", info.provider());
        }
        let granted: usize = all.iter().map(|(_, tried)| tried.granted).sum();
        let refused: usize = all.iter().map(|(_, tried)| tried.refused).sum();
        assert_eq!(granted + refused, 10 * 30 + 2 * 23 + 2 * 15, "every operation of every type");
        assert!(granted >= 200, "{granted}: most are granted where there are atomics at all");
        if info.provider() == "soft" && cfg!(target_arch = "x86_64") {
            assert_eq!(refused, 0, "the software transport has all of them");
        }
    });
}

fn values_need_no_buffer<T: Transport + 'static>(info: &Info<T>) {
    on_atomic_pair(info, |pair| {
        if info.attributes().domain.mr_mode.contains(loom_core::vocabulary::MrMode::LOCAL) {
            return crate::report::not_granted();
        }
        let target = Numbers::new(pair, &[40_u64, 7]);
        let (remote, domain) = (target.mr.remote(), pair.domain);
        let add = domain.query_atomic(FetchOp::<u64>::SUM).expect("fetch and add");
        let swap = domain.query_atomic(CompareOp::<u64>::CSWAP).expect("compare and swap");
        let look = look(pair);
        let set = domain.query_atomic(BaseOp::<u64>::WRITE).expect("write");
        let post = |post: &dyn Fn() -> Result<loom_core::OpKey, PostError>| {
            let key = retry(pair.cq, post);
            let fetched = pair.cq.wait_value(key, limit()).or_cut("the queue works").expect("in time");
            assert_eq!(fetched.key, key);
            fetched.value::<u64>().or_cut("it succeeds")
        };
        let (a, to_b) = (&pair.a, pair.to_b);
        assert_eq!(post(&|| a.fetch_value(to_b, &remote, 8, add, 2)), Some(40));
        let read = |expected| {
            let value = look.map(|look| post(&|| a.read_value(to_b, &remote, 8, look)));
            assert!(value.is_none_or(|value| value == Some(expected)), "{value:?}, and not {expected}");
        };
        read(42);
        assert_eq!(post(&|| a.compare_value(to_b, &remote, 8, swap, 41, 1)), Some(42), "it differs");
        assert_eq!(post(&|| a.compare_value(to_b, &remote, 8, swap, 42, 1)), Some(42), "it is the same");
        read(1);
        assert_eq!(post(&|| a.atomic_value(to_b, &remote, 16, set, 9)), None, "nothing is fetched");
        target.become_(&[1, 9], "values");
        // If a wait for another one has kept them, a poll returns them too.
        let first = retry(pair.cq, || a.fetch_value(to_b, &remote, 8, add, 1));
        let second = retry(pair.cq, || a.fetch_value(to_b, &remote, 8, add, 1));
        let fetched = pair.cq.wait_value(second, limit()).or_cut("the queue works").expect("in time");
        assert_eq!(fetched.value::<u32>().or_cut("it succeeds"), None, "it has another size");
        let mut deadline = limit();
        loop {
            match pair.cq.poll().or_cut("the queue works") {
                Some(loom_core::Completion::Value(fetched)) => {
                    assert_eq!(fetched.key, first);
                    fetched.result().or_cut("it succeeds");
                    break;
                }
                Some(other) => panic!("{other:?}"),
                None => assert!(!loom_core::Deadline::passed(&mut deadline), "the first one is kept"),
            }
        }
        assert!(pair.cq.wait_value(first, limit()).is_err(), "it was taken");
        target.become_(&[3, 9], "both were done");
        assert_eq!(pair.cq.in_flight(), 0);
    });
}

fn injected_atomic_is_done<T: Transport + 'static>(info: &Info<T>) {
    on_atomic_pair(info, |pair| {
        let target = Numbers::new(pair, &[1_u32, 2]);
        let add = pair.domain.query_atomic(BaseOp::<u32>::SUM).expect("add");
        if pair.a.inject_size() >= 8 {
            retry(pair.cq, || pair.a.inject_atomic(pair.to_b, &target.mr.remote(), 4, add, &[10, 20]));
            target.become_(&[11, 22], "injected");
        }
        let long = vec![0; (pair.a.inject_size() / 4 + 1).min(add.max_count() + 1)];
        let error = pair.a.inject_atomic(pair.to_b, &target.mr.remote(), 4, add, &long).expect_err("it is too long");
        assert!(
            matches!(error, PostError::TooLong { .. } | PostError::OutOfBounds | PostError::TooManyElements { .. }),
            "{error:#}"
        );
    });
}

fn atomic_of_parts_takes_them_in_order<T: Transport + 'static>(info: &Info<T>) {
    on_atomic_pair(info, |pair| {
        let target = Numbers::new(pair, &[1_u64, 2, 3, 4]);
        let remote = target.mr.remote();
        let add = pair.domain.query_atomic(FetchOp::<u64>::SUM).expect("fetch and add");
        let look = look(pair);
        let swap = pair.domain.query_atomic(CompareOp::<u64>::CSWAP).expect("compare and swap");
        let set = pair.domain.query_atomic(BaseOp::<u64>::WRITE).expect("write");
        let parts = [remote.part(24, 8).expect("the third"), remote.part(8, 8).expect("the first")];
        let several = info.attributes().tx.rma_iov_limit > 1;
        let parts = if several { &parts[..] } else { &parts[..1] };
        let of = |all: [u64; 2]| if several { all.to_vec() } else { all[..1].to_vec() };
        let options = AtomicOptions::default;
        let (a, to_b) = (&pair.a, pair.to_b);

        let buf = bytes::<u64>(&[&of([10, 20]), &of([0, 0])]);
        let key = pair.post(buf, |buf| a.atomic_with(to_b, parts, add, options(), buf));
        assert_eq!(pair.finish(key).0, bytes::<u64>(&[&of([10, 20]), &of([3, 1])]));
        if let Some(look) = look {
            let key = pair.post(room(8 * parts.len()), |buf| a.atomic_with(to_b, parts, look, options(), buf));
            assert_eq!(pair.finish(key).0, bytes::<u64>(&[&of([13, 21])]));
        }
        let buf = bytes::<u64>(&[&of([5, 6]), &of([13, 0]), &of([0, 0])]);
        let key = pair.post(buf, |buf| a.atomic_with(to_b, parts, swap, options(), buf));
        assert_eq!(pair.finish(key).0, bytes::<u64>(&[&of([5, 6]), &of([13, 0]), &of([13, 21])]));
        let first = if several { 21 } else { 1 };
        target.become_(&[first, 2, 5, 4], "the first of the parts compared as the same");
        let key = pair.post(bytes::<u64>(&[&of([7, 8])]), |buf| a.atomic_with(to_b, parts, set, options(), buf));
        pair.finish(key);
        target.become_(&[if several { 8 } else { 1 }, 2, 7, 4], "parts are written");
    });
}

fn atomics_need_the_access_of_the_manual<T: Transport + 'static>(info: &Info<T>) {
    const READ: Access = Access::REMOTE_READ;
    const WRITE: Access = Access::REMOTE_WRITE;
    on_atomic_pair(info, |pair| {
        let target = Numbers::new(pair, &[1_u64, 2]);
        let (a, to_b, all) = (&pair.a, pair.to_b, target.mr.remote());
        let with = |access| RemoteRegion { base: all.base, len: all.len, key: all.key, access };
        let set = pair.domain.query_atomic(BaseOp::<u64>::WRITE).expect("write");
        let add = pair.domain.query_atomic(FetchOp::<u64>::SUM).expect("fetch and add");
        let swap = pair.domain.query_atomic(CompareOp::<u64>::CSWAP).expect("compare and swap");
        for (region, both) in [(with(READ), WRITE), (with(WRITE), READ), (with(Access::empty()), READ | WRITE)] {
            let refused = |missing| Err(PostError::RemoteAccess(missing));
            let rejected = a.atomic(to_b, &region, 8, add, pattern(16, 1)).expect_err("it is refused");
            assert_eq!((Err(rejected.error), rejected.value), (refused(both), pattern(16, 1)));
            let part = [region.part(8, 8).expect("the first")];
            let rejected = a.atomic_with(to_b, &part, swap, AtomicOptions::default(), pattern(24, 1));
            assert_eq!(rejected.map(drop).map_err(|rejected| rejected.error), refused(both));
            assert_eq!(a.compare_value(to_b, &region, 8, swap, 1, 3).map(drop), refused(both));
            if both.contains(WRITE) {
                assert_eq!(a.atomic_value(to_b, &region, 8, set, 3).map(drop), refused(WRITE));
                assert_eq!(a.inject_atomic(to_b, &region, 8, set, &[3]), refused(WRITE));
            }
            if let Ok(look) = pair.domain.query_atomic(ReadOp::<u64>::READ)
                && both.contains(READ)
            {
                assert_eq!(a.read_value(to_b, &region, 8, look).map(drop), refused(READ));
            }
        }
        // The minimum access.
        let key = retry(pair.cq, || a.atomic_value(to_b, &with(WRITE), 8, set, 3));
        let mut deadline = limit();
        pair.cq
            .wait_value(key, &mut deadline)
            .or_cut("the queue works")
            .expect("in time")
            .result()
            .or_cut("it succeeds");
        target.become_(&[3, 2], "set");
        if let Some(look) = look(pair) {
            let key = retry(pair.cq, || a.read_value(to_b, &with(READ), 8, look));
            let mut deadline = limit();
            let fetched = pair.cq.wait_value(key, &mut deadline).or_cut("the queue works").expect("in time");
            assert_eq!(fetched.value::<u64>().or_cut("it succeeds"), Some(3));
        }
    });
}

fn invalid_atomics_are_refused<T: Transport + 'static>(info: &Info<T>) {
    on_atomic_pair(info, |pair| {
        let target = Numbers::new(pair, &[1_u64, 2]);
        let remote = target.mr.remote();
        let add = pair.domain.query_atomic(FetchOp::<u64>::SUM).expect("fetch and add");
        let (a, to_b) = (&pair.a, pair.to_b);
        let refused = |offset, op, len| {
            let rejected = a.atomic(to_b, &remote, offset, op, pattern(len, 3)).expect_err("it is refused");
            assert_eq!(rejected.value, pattern(len, 3), "the buffer comes back");
            rejected.error
        };
        for len in [0, 8, 17, 24] {
            assert_eq!(refused(8, add, len), PostError::NotElements { size: 8 }, "{len} bytes");
        }
        assert_eq!(refused(4, add, 16), PostError::Misaligned { size: 8 });
        assert_eq!(refused(32, add, 16), PostError::OutOfBounds);
        if let Some(most) = add.max_count().checked_add(1).filter(|most| *most < 1 << 20) {
            let long = Mr::open_in(pair.domain, room(8 * most), PEER_ACCESS, allocator()).expect("region");
            let rejected = a.atomic(to_b, &long.remote(), 0, add, room(16 * most)).expect_err("too many");
            assert_eq!(rejected.error, PostError::TooManyElements { limit: add.max_count() });
        }
        let other = Domain::open(info).expect("another domain");
        let foreign = other.query_atomic(FetchOp::<u64>::SUM).expect("it is the same provider");
        assert_eq!(refused(8, foreign, 16), PostError::ForeignOperation);
        let error = a.fetch_value(to_b, &remote, 8, foreign, 1).expect_err("it is refused");
        assert_eq!(error, PostError::ForeignOperation);
        assert_eq!(pair.cq.in_flight(), 0, "nothing was posted");
        target.become_(&[1, 2], "nothing was changed");
    });
}

fn closed_endpoint_gives_atomics_back<T: Transport + 'static>(info: &Info<T>) {
    on_atomic_pair(info, |pair| {
        let target = Numbers::new(pair, &[0_u64; 2]);
        let remote = target.mr.remote();
        let add = pair.domain.query_atomic(FetchOp::<u64>::SUM).expect("fetch and add");
        let endpoint = pair.cq.endpoint(pair.av).expect("another endpoint");
        let post = || endpoint.fetch_value(pair.to_b, &remote, 8, add, 1);
        let first = retry(pair.cq, post);
        let (mut values, mut buffers) = (vec![first], Vec::new());
        for _ in 0..8 {
            // A post that is refused temporarily is not repeated: the test polls after the close.
            values.extend(endpoint.fetch_value(pair.to_b, &remote, 8, add, 1).ok());
            buffers.extend(endpoint.atomic(pair.to_b, &remote, 16, add, bytes(&[&[1_u64], &[0]])).ok());
        }
        drop(endpoint);
        let mut done = 0;
        for key in buffers.iter() {
            let Some((buf, result)) = pair.end_after_close(*key) else { continue };
            assert_eq!(buf.len(), 16);
            done += usize::from(result.is_ok());
        }
        for key in values.iter() {
            let fetched = pair.cq.wait_value(*key, limit()).or_cut("the queue works");
            // The rule is that of buffers in `end_after_close`.
            assert!(fetched.is_some() || info.provider() == "shm" || !is_tested(info), "it ends with its endpoint");
            done += usize::from(fetched.is_some_and(|fetched| fetched.result().is_ok()));
        }
        let posted = values.len() + buffers.len();
        let mut contents = room(target.mr.window().len());
        target.mr.window().copy_to(0, &mut contents).expect("the whole window");
        let sum: u64 = numbers::<u64>(&contents)[1..3].iter().sum();
        let sum = usize::try_from(sum).expect("a small number");
        assert!((done..=posted).contains(&sum), "{done} of {posted} say that they are done, and {sum} are");
        println!("{}: {} posted, {done} done", info.provider(), posted);
    });
}
