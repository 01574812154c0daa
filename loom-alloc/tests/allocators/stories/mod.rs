//! Stories of blocks on arenas and pools, shared with the fuzz targets `arena` and `pool`.

mod world;

use proptest::collection::vec;
use proptest::prelude::{ProptestConfig, any};
use proptest::{prop_assert, proptest};

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arenas_agree_with_their_model(bytes in vec(any::<u8>(), 200..600)) {
        prop_assert!(world::arena(&bytes) > 4);
    }

    #[test]
    fn pools_and_their_users_agree_with_their_model(bytes in vec(any::<u8>(), 200..600)) {
        prop_assert!(world::pool(&bytes) > 4);
    }
}
