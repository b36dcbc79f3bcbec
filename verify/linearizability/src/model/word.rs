//! A word of 64 bits, as memory regions have them.

use super::Model;

/// What is done with a word. Each answers what the word was before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WordOperation {
    /// It is read.
    Read,
    /// It is written; the answer is not looked at.
    Write(u64),
    /// Something is added, and wraps.
    FetchAdd(u64),
    /// It becomes the second where it is the first.
    CompareSwap(u64, u64),
    /// It becomes this.
    Swap(u64),
}

/// A word that begins with a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WordModel(pub u64);

impl Model for WordModel {
    type Operation = WordOperation;
    type Answer = u64;
    type State = u64;

    fn begin(&self) -> u64 {
        self.0
    }

    fn step(
        &self,
        word: &u64,
        _: u64,
        operation: &WordOperation,
        answer: Option<&u64>,
    ) -> Option<u64> {
        let is_silent = matches!(operation, WordOperation::Write(_));
        if !is_silent && answer.is_some_and(|answer| answer != word) {
            return None;
        }
        Some(match *operation {
            WordOperation::Read => *word,
            WordOperation::Write(value) | WordOperation::Swap(value) => value,
            WordOperation::FetchAdd(more) => word.wrapping_add(more),
            WordOperation::CompareSwap(expected, new) if *word == expected => new,
            WordOperation::CompareSwap(..) => *word,
        })
    }
}
