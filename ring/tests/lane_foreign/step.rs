//! One step of a script for a foreign peer, as records of 11 bytes in an input of the fuzzers.
//!
//! The scripts of `ring` and `stub` have it alike; what a step means is said where it is played.

pub const RECORD_BYTES: usize = 11;

/// One step of a script: `[what u8][a u16][word u64]`.
#[derive(Clone, Copy)]
pub struct Step {
    pub what: u8,
    pub a: u16,
    pub word: u64,
}

impl Step {
    fn read(record: &[u8], kinds: u8) -> Self {
        let mut word = [0; 8];
        word.copy_from_slice(&record[3..]);
        let a = u16::from_le_bytes([record[1], record[2]]);
        Self { what: record[0] % kinds, a, word: u64::from_le_bytes(word) }
    }

    /// As it stands in an input.
    #[allow(dead_code)] // the fuzz targets only read
    pub fn bytes(self) -> [u8; RECORD_BYTES] {
        let mut record = [0; RECORD_BYTES];
        record[0] = self.what;
        record[1..3].copy_from_slice(&self.a.to_le_bytes());
        record[3..].copy_from_slice(&self.word.to_le_bytes());
        record
    }
}

/// The whole records of `script`, each one of `kinds`.
pub fn steps(script: &[u8], kinds: u8) -> impl Iterator<Item = Step> + '_ {
    script.chunks_exact(RECORD_BYTES).map(move |record| Step::read(record, kinds))
}
