//! See `loom_fuzz::tag_matching`.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    loom_fuzz::tag_matching(data);
});

#[cfg(not(fuzzing))]
fn main() {
    eprintln!("run it with: cargo +nightly fuzz run tag_matching");
}
