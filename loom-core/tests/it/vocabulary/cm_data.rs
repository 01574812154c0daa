//! Data of connection requests.

use loom_core::vocabulary::CmData;

#[test]
fn bytes_are_kept_as_far_as_there_is_room() {
    assert!(CmData::EMPTY.is_empty());
    assert_eq!(CmData::new(b"hello").as_deref(), Some(&b"hello"[..]));
    assert_eq!(CmData::new(&[7; CmData::MAX_LEN]).map(|data| data.len()), Some(CmData::MAX_LEN));
    assert_eq!(CmData::new(&[7; CmData::MAX_LEN + 1]), None);
}
