//! Replays the stored corpus of the fuzz target `plugin_record`, and every small mutation of it.

mod foreign;

use std::path::Path;

#[test]
fn every_record_of_a_plug_in_means_one_thing_or_nothing() {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/listener/corpus/plugin_record");
    let mut inputs = 0;
    for entry in std::fs::read_dir(folder).expect("the corpus is stored") {
        let mut bytes = std::fs::read(entry.expect("listed").path()).expect("readable");
        (0..=bytes.len()).for_each(|length| foreign::exercise(&bytes[..length]));
        for at in 0..bytes.len() {
            let kept = bytes[at];
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                bytes[at] = value;
                foreign::exercise(&bytes);
            }
            bytes[at] = kept;
        }
        inputs += 1;
    }
    assert!(inputs >= 3, "{inputs} inputs");
}
