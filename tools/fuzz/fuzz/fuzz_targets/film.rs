//! See `fuzz::TARGETS`.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| fuzz::run("film", bytes));
