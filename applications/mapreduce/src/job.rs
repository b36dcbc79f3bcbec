//! What is done with a text: count its words, or sort its lines.
//!
//! Both make a sorted list of keys and counts of a part of the text, lists are merged, and the result is
//! written in the order of keys. So a job is: what parts keys, how a list is made, how it is written.

use crate::entry::{merge, Entry};
use crate::table::{Table, SPACE};

/// Keys that a sample has for each partition.
const SAMPLED_PER_PARTITION: usize = 8;

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Job {
    /// How often each word is there: `word TAB count` for each.
    Count,
    /// All lines in the order of their bytes.
    Sort,
}

impl Job {
    /// Reads a job's name.
    pub fn parse(name: &str) -> Option<Job> {
        match name {
            "count" => Some(Job::Count),
            "sort" => Some(Job::Sort),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Job::Count => "count",
            Job::Sort => "sort",
        }
    }

    /// Whether a byte ends a key.
    pub fn is_end(self, byte: u8) -> bool {
        match self {
            Job::Count => byte <= SPACE,
            Job::Sort => byte == b'\n',
        }
    }

    /// The keys of a text, sorted, each once.
    pub fn entries<'a>(self, text: &'a [u8], table: &'a mut Table) -> Vec<Entry<'a>> {
        match self {
            Job::Count => {
                table.clear();
                table.count(text);
                table.entries()
            }
            Job::Sort => merge(lines(text).map(|line| Entry::new(line, 1)).collect()),
        }
    }

    /// Writes a result as people read it.
    pub fn format(self, entries: &[Entry], into: &mut Vec<u8>) {
        for entry in entries {
            match self {
                Job::Count => {
                    entry.push_key(into);
                    into.extend_from_slice(format!("\t{}\n", entry.count).as_bytes());
                }
                Job::Sort => (0..entry.count).for_each(|_| {
                    entry.push_key(into);
                    into.push(b'\n');
                }),
            }
        }
    }

    /// Keys that part a result into about equal partitions, by those of a sample.
    pub fn splitters(self, sample: &[u8], partitions: usize) -> Vec<Vec<u8>> {
        let mut table = Table::default();
        let entries = self.entries(sample, &mut table);
        let wanted = partitions.min(entries.len() / SAMPLED_PER_PARTITION).max(1);
        let key = |n: usize| {
            let mut key = Vec::new();
            entries[n * entries.len() / wanted].push_key(&mut key);
            key
        };
        (1..wanted).map(key).collect()
    }
}

/// The lines of a text; an empty text has none, and the last need not end.
fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let whole = text.strip_suffix(b"\n").unwrap_or(text);
    let lines = (!text.is_empty()).then(|| whole.split(|byte| *byte == b'\n'));
    lines.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(job: Job, text: &str) -> String {
        let (mut table, mut into) = (Table::default(), Vec::new());
        job.format(&job.entries(text.as_bytes(), &mut table), &mut into);
        String::from_utf8(into).unwrap()
    }

    #[test]
    fn words_are_counted_and_lines_sorted() {
        assert_eq!(done(Job::Count, "b a\nb  c b"), "a\t1\nb\t3\nc\t1\n");
        assert_eq!(done(Job::Sort, "b\na b\n\nb"), "\na b\nb\nb\n");
        assert_eq!(done(Job::Sort, "\n"), "\n");
        assert_eq!(done(Job::Sort, ""), "");
    }

    #[test]
    fn splitters_are_keys_in_order_and_fewer_where_there_are_few() {
        let sample: String = (100..200).map(|n| format!("{n} ")).collect();
        let found = Job::Count.splitters(sample.as_bytes(), 4);
        assert_eq!(found, [b"125", b"150", b"175"]);
        assert!(Job::Count.splitters(b"one two", 4).is_empty());
    }
}
