//! Policy files of sealed programs: any text is a policy, which its own file reads back to the
//! same, or an error with a line inside the text.
#![no_main]

use heliostat_control::policy::Policy;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Policy::from_toml(text) {
        Ok(policy) => assert_eq!(Policy::from_toml(&policy.to_toml()), Ok(policy)),
        Err(error) => {
            assert!(error.mistake.line <= text.lines().count() + 1);
            assert!(!error.to_string().is_empty());
        }
    }
});
