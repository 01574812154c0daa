//! Capacities as values of `serde`.

use loom_tagged::TaggedAttr;

#[test]
fn capacities_are_read_back_and_missing_fields_have_the_default() {
    let attr = TaggedAttr { seed: 1 << 63, ..TaggedAttr::DEFAULT };
    let text = serde_json::to_string(&attr).unwrap();
    assert!(text.contains(r#""seed":"0x8000000000000000""#), "{text}");
    assert_eq!(serde_json::from_str::<TaggedAttr>(&text).unwrap(), attr);
    let mut room = [0; 64];
    let bytes = postcard::to_slice(&attr, &mut room).unwrap();
    assert_eq!(postcard::from_bytes::<TaggedAttr>(bytes).unwrap(), attr);
    let links = serde_json::from_str::<TaggedAttr>(r#"{"links":4}"#).unwrap();
    assert_eq!(links, TaggedAttr { links: 4, ..TaggedAttr::DEFAULT });
    let unknown = serde_json::from_str::<TaggedAttr>(r#"{"link":4}"#).unwrap_err().to_string();
    assert!(unknown.starts_with("unknown field"), "{unknown}");
}
