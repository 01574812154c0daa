//! Long random stories.

use loom_core::allocator_api2::alloc::Global;
use loom_core::engine::address_table::{AddressTableAttr, AddressTableMemory};
use loom_core::vocabulary::{AddressFormat, AvType};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::engine::address_table::world::{Action, Address, World};

/// Few addresses, so that they collide.
fn address() -> impl Strategy<Value = Address> {
    let v4 = |form: BoxedStrategy<u8>| {
        (0u8..5, prop_oneof![9 => 0u8..4, 1 => Just(255)], form).prop_map(|(ip, port, form)| Address::V4 {
            ip,
            port,
            form,
        })
    };
    let v6 = (0u8..4, 0u8..3, any::<[bool; 3]>(), any::<u8>());
    let v6 = v6.prop_map(|(ip, port, [flow, scope, mapped], form)| Address::V6 { ip, port, flow, scope, mapped, form });
    let raw = (0u8..14, prop_oneof![0u16..40, 0u16..=512], 0u8..2);
    prop_oneof![
        6 => v4(Just(0).boxed()),
        2 => v4(any::<u8>().boxed()),
        3 => v6,
        3 => raw.prop_map(|(format, len, last)| Address::Raw { format, len, last }),
    ]
}

fn action() -> impl Strategy<Value = Action> {
    let place = || (prop_oneof![9 => 0u8..70, 1 => any::<u8>()], 0u8..3);
    let sized = || (address(), 0u8..6, 0u8..5);
    let set = any::<bool>;
    prop_oneof![
        12 => address().prop_map(Action::Insert),
        2 => [address(), address(), address()].prop_map(Action::InsertAll),
        3 => (address(), place()).prop_map(|(address, (at, rest))| Action::InsertAt { address, at, rest }),
        1 => place().prop_map(|(at, rest)| Action::InsertUnnamed { at, rest }),
        3 => sized().prop_map(|(first, nodes, services)| Action::InsertRange { first, nodes, services }),
        2 => (sized(), place())
            .prop_map(|((first, nodes, services), (at, rest))| Action::InsertRangeAt { first, nodes, services, at, rest }),
        10 => (0u8..40).prop_map(|nth| Action::Remove { nth }),
        3 => address().prop_map(Action::Find),
        2 => (set(), 0u8..20).prop_map(|(set, nth)| Action::SetInsert { set, nth }),
        1 => (set(), 0u8..20).prop_map(|(set, nth)| Action::SetRemove { set, nth }),
        1 => set().prop_map(|set| Action::SetUnion { set }),
        1 => set().prop_map(|set| Action::SetIntersect { set }),
        1 => set().prop_map(|set| Action::SetDifference { set }),
        1 => (set(), 0u8..70, 0u8..70, any::<u8>())
            .prop_map(|(set, first, last, stride)| Action::SetRange { set, first, last, stride }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn stories_go_as_a_list_has_it(
        (places, singles) in (1usize..70, prop_oneof![2 => Just(usize::MAX), 1 => 0usize..40]),
        (cells, ranges) in (0usize..60, 0usize..6),
        map in any::<bool>(),
        format in prop_oneof![Just(0u32), 0u32..14],
        seed in any::<u64>(),
        actions in vec(action(), 0..200),
    ) {
        let av_type = if map { AvType::MAP } else { AvType::TABLE };
        let format = AddressFormat::from_raw(format);
        let attr = AddressTableAttr { places, singles, bytes: cells * 32, ranges, format, av_type, seed };
        let mut memory = AddressTableMemory::new_in(attr, Global).unwrap();
        let mut world = World::new(memory.table(), attr);
        for action in &actions {
            world.apply(action);
            world.check();
        }
        world.close();
    }
}
