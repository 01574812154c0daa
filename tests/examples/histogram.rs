//! Values and quantiles of the histogram, compared with sorted values.

use super::*;

#[test]
fn every_value_has_a_count_within_one_part_in_64() {
    let values = (0..70_000)
        .chain((0..63).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1, 3 << bit]))
        .chain([u64::MAX]);
    for value in values {
        let at = index(value);
        assert!(at < GROUPS * EACH, "{value}");
        assert!(highest(at) >= value && highest(at) - value <= value / 64, "{value} at {at}: up to {}", highest(at));
        assert!(at == 0 || highest(at - 1) < value, "{value}");
    }
}

/// Compares every percentile with the sorted values: consecutive, fast-growing, and few ones.
#[test]
fn quantiles_are_those_of_the_sorted_values() {
    assert_eq!(Histogram::new().quantile(500_000), 0);
    let mut state = 1_u64;
    let mut random = |bits: u32| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> (64 - bits)
    };
    let scattered = (0..200_000).map(|round| random(1 + round % 40)).collect();
    for mut values in [(1..=1000).rev().collect(), scattered, vec![7], vec![0, u64::MAX]] {
        let mut histogram = Histogram::new();
        values.iter().for_each(|value| histogram.record(*value));
        values.sort_unstable();
        for of_million in [0, 1, 500_000, 900_000, 990_000, 999_000, 999_900, 999_990, 1_000_000] {
            let rank = (values.len() * of_million).div_ceil(1_000_000).max(1);
            let exact = values[rank - 1];
            let found = histogram.quantile(of_million as u64);
            assert!(found >= exact && found - exact <= exact / 64, "{of_million}: {found}, and not {exact}");
        }
        assert_eq!(Some(&histogram.longest), values.last());
    }
}
