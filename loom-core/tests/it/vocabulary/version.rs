//! Versions.

use loom_core::vocabulary::Version;

#[test]
fn packs_as_the_header_does() {
    assert_eq!(Version::new(1, 17).as_raw(), 0x0001_0011);
    assert_eq!(Version::from_raw(0x0002_0005), Version::new(2, 5));
    assert_eq!(Version::from_raw(u32::MAX).as_raw(), u32::MAX);
}

#[test]
fn orders_and_prints() {
    assert!(Version::new(1, 9) < Version::new(1, 17));
    assert!(Version::new(1, 17) < Version::new(2, 0));
    assert_eq!(Version::new(1, 17).to_string(), "1.17");
}
