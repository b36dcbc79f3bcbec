//! Configuration files: any text is a configuration or an error with a line inside the text.
#![no_main]

use heliostat_control::config::{Config, Names};
use libfuzzer_sys::fuzz_target;

struct Nobody;

impl Names for Nobody {
    fn user(&self, _: &str) -> Option<u32> {
        None
    }
    fn group(&self, _: &str) -> Option<u32> {
        None
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(error) = Config::read(text, &Nobody) {
        assert!(error.line <= text.lines().count() + 1);
        assert!(!error.to_string().is_empty());
    }
});
