//! Datatypes and layouts, which depend on the type of a value only.

use loom_core::atomic::{BaseOp, FetchOp, Operation};
use loom_core::immediate::{Field, Layout};

twins! {
    fn atomic_that_the_type_does_not_admit() {
        let _ = FetchOp::<u64>::BOR.atomic();
    }

    fn atomic_order_of_complex_numbers() {
        let _ = BaseOp::<f64>::MIN.atomic();
    }

    fn atomic_of_an_unsupported_type() {
        let _ = FetchOp::<u8>::WRITE.atomic();
    }

    fn layout_wider_than_immediate_data() {
        loom_core::data_layout! {
            struct Part {
                transfer: u64 = 60,
                index: u8 = 4,
            }
        }
        assert_eq!(Part::WIDTH, 64);
    }

    fn layout_with_a_field_of_no_bits() {
        loom_core::data_layout! {
            struct Part {
                transfer: u32 = 20,
                nothing: u8 = 1,
            }
        }
        assert_eq!(Part::WIDTH, 21);
    }

    fn layout_with_a_type_that_is_not_a_field() {
        #[derive(Clone, Copy)]
        enum Kind {
            Part,
            Last,
        }
        impl Field for Kind {
            fn to_bits(self) -> u64 {
                self as u64
            }
            fn from_bits(bits: u64) -> Option<Self> {
                [Kind::Part, Kind::Last].get(usize::try_from(bits).ok()?).copied()
            }
        }
        loom_core::data_layout! {
            struct Part {
                transfer: u32 = 20,
                kind: Kind = 1,
            }
        }
        let data = Part { transfer: 1, kind: Kind::Last }.encode().unwrap();
        assert!(matches!(Part::decode(data).unwrap().kind, Kind::Last));
    }
}
