//! See `loom_fuzz::tcp_stranger`.

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    loom_fuzz::tcp_stranger(data);
});

#[cfg(not(fuzzing))]
fn main() {
    eprintln!("run it with: cargo +nightly fuzz run tcp_stranger");
}
