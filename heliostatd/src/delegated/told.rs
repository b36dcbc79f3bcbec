//! What people are told of the files that sessions have open: which way their bytes went, and why.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use heliostat_abi::code::Unmapped;
use heliostat_abi::delegated::Way;
use serde_json::{json, Map, Value};

use super::counts::Counts;

/// Counters of one open file; the server loop writes them, the control plane reads.
#[derive(Default)]
pub struct Told {
    transfers: [AtomicU64; Way::SERVED.len()],
    bytes: [AtomicU64; Way::SERVED.len()],
}

impl Told {
    /// A transfer has ended.
    pub fn ended(&self, way: Way, bytes: u64) {
        let way = way as usize;
        if let (Some(count), Some(sum)) = (self.transfers.get(way), self.bytes.get(way)) {
            Counts::add(count, 1);
            Counts::add(sum, bytes);
        }
    }

    /// Transfers and bytes of each way that was taken.
    pub fn json(&self) -> Value {
        let ways = Way::SERVED.iter().zip(self.transfers.iter().zip(&self.bytes));
        let taken = ways.filter(|(way, (count, _))| **way != Way::None && count.load(Relaxed) > 0);
        let each = taken.map(|(way, (count, bytes))| {
            let counted = json!({ "transfers": count.load(Relaxed), "bytes": bytes.load(Relaxed) });
            (way.name().to_owned(), counted)
        });
        Value::Object(each.collect::<Map<_, _>>())
    }
}

/// Whether the cache serves a file's reads, and why not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// A lease says that nobody writes.
    Leased,
    /// There was a lease, and a writer has come.
    Broken,
    /// It was opened for writing.
    Writable,
    /// It was opened for the device.
    Direct,
    /// It was, and the program may read it by itself.
    Lent,
    /// It was empty.
    Empty,
    /// A lease says nothing of stores by mappings.
    Overlay,
    /// The kernel gives no lease.
    NotLeased(Unmapped),
}

impl Why {
    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Leased => "the cache serves it: a lease says that nobody writes",
            Self::Broken => "the kernel reads it: somebody has opened it for writing since",
            Self::Writable => "the kernel serves it: it was opened for writing",
            Self::Direct => "the device serves it: it was opened so",
            Self::Lent => {
                "the device serves it: it was opened so; reads of the program's own io_uring are \
                 not counted here"
            }
            Self::Empty => "the kernel reads it: it was empty when it was opened",
            Self::Overlay => "the kernel reads it: on overlay a mapping may write it under a lease",
            Self::NotLeased(Unmapped::Written) => {
                "the kernel reads it: somebody has it open for writing"
            }
            Self::NotLeased(reason) => reason.text(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ways_that_were_taken_are_told() {
        let told = Told::default();
        told.ended(Way::Cached, 10);
        told.ended(Way::Cached, 5);
        told.ended(Way::None, 0);
        assert_eq!(told.json(), json!({ "cached": { "transfers": 2, "bytes": 15 } }));
    }
}
