//! Random sequences of operations, against a plain model.

use std::collections::{HashMap, VecDeque};

use heliostat_abi::file::delegated::{OpKind, Operation, Pieces};
use heliostat_abi::name::ObjectId;
use proptest::prelude::*;

use super::*;

proptest! {
    /// Every operation that is admitted is told of once, ordered ones in the order of submission.
    #[test]
    fn operations_end_once_and_in_order(kinds in prop::collection::vec((0..4_u8, 0..3_u32), 1..60),
                                        picks in prop::collection::vec((0..8_usize, any::<bool>()), 200)) {
        let mut operations = Operations::new(8);
        let mut waiting: VecDeque<_> = kinds.into_iter().enumerate().collect();
        let (mut begun, mut ended) = (Vec::new(), Vec::new());
        let mut order: HashMap<u32, u64> = HashMap::new();
        for (pick, cancels) in picks {
            while let Some((tag, (kind, file))) = waiting.pop_front() {
                let asked = operation(kind, file, tag as u64);
                if operations.admit(asked, 0).is_err() {
                    waiting.push_front((tag, (kind, file)));
                    break;
                }
            }
            while let Some(id) = operations.pop() {
                let entry = operations.get(id).copied().unwrap();
                if entry.operation.kind.is_ordered() {
                    let last = order.insert(entry.operation.object.index, entry.operation.tag);
                    prop_assert!(last.is_none_or(|last| last < entry.operation.tag));
                }
                begun.push(id);
            }
            if cancels {
                if let Cancelled::Now(id) = operations.cancel(pick as u64, 125) {
                    begun.retain(|other| *other != id);
                    ended.push(operations.end(id).unwrap().operation.tag);
                }
            } else if !begun.is_empty() {
                let id = begun.remove(pick % begun.len());
                ended.push(operations.end(id).unwrap().operation.tag);
            }
        }
        let count = ended.len();
        ended.sort_unstable();
        ended.dedup();
        prop_assert_eq!(count, ended.len());
    }
}

fn operation(kind: u8, file: u32, tag: u64) -> Operation {
    let kind = [OpKind::Read, OpKind::Write, OpKind::Append, OpKind::Fsync][usize::from(kind % 4)];
    let object = ObjectId { index: file, generation: 1 };
    let pieces = Pieces::default();
    Operation { kind, object, offset: 0, tag, timeout_us: 0, argument: 0, pieces }
}
