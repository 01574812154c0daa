//! Excerpts of text.

use loom_core::vocabulary::Excerpt;

#[test]
fn letters_are_not_cut() {
    let text = "ä".repeat(40);
    assert_eq!(Excerpt::of(&text).as_str(), format!("{}…", "ä".repeat(23)));
    assert_eq!(Excerpt::of(&text[..48]).as_str(), &text[..48]);
    assert_eq!((Excerpt::of("").as_str(), size_of::<Excerpt>()), ("", 50));
}
