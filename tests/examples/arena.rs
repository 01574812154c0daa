//! Deployments of the example in blocks of several sizes.

use super::*;

fn with(arguments: &[&str]) -> Result<String, Failure> {
    run(Parser::from_args(arguments))
}

#[test]
fn default_block_has_room_for_all_objects() {
    with(&[]).expect("64 MiB are enough");
}

#[test]
fn too_small_block_is_refused_before_an_object_is_opened() {
    for (mib, name) in [("0", NETWORK_NAME), ("8", NETWORK_NAME), ("28", SLAB_NAME)] {
        let error = with(&["--mib", mib]).expect_err("too small");
        let text = error.to_string();
        assert!(text.starts_with(&format!("the block is too small for the {name}: ")), "{text}");
        let (_, enough) = text.rsplit_once(' ').expect("the error has the size that is enough");
        with(&["--mib", enough]).expect("enough");
        let less = enough.parse::<usize>().expect("a number") - 1;
        with(&["--mib", &less.to_string()]).expect_err("not enough");
    }
}
