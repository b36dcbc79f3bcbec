//! Random traffic on a region, held against plain copies of what the memory was.

use heliostat_stub_snapshot::{PublishError, Region, Version, View, PAGE_BYTES};
use proptest::prelude::*;

use super::region::{attach, content};

#[derive(Clone, Debug)]
pub enum Step {
    Write { at: usize, len: usize, value: u8 },
    CopyAhead(usize),
    Publish,
    Pin,
    Unpin(usize),
    Show(usize),
}

pub fn steps(length: usize) -> impl Strategy<Value = Vec<Step>> {
    let write = (0..length, 1..3 * PAGE_BYTES, any::<u8>())
        .prop_map(|(at, len, value)| Step::Write { at, len, value });
    let step = prop_oneof![
        4 => write,
        3 => (0..5 * PAGE_BYTES).prop_map(Step::CopyAhead),
        3 => Just(Step::Publish),
        2 => Just(Step::Pin),
        2 => (0..8usize).prop_map(Step::Unpin),
        1 => (0..8usize).prop_map(Step::Show),
    ];
    prop::collection::vec(step, 1..60)
}

/// Plays steps on a region over `memory` and on plain copies; every pinned version must equal its
/// copy. Without room for a version, at least `pins_at_full` are pinned here and by the view.
pub fn play(mut region: Region, memory: &mut [u8], steps: &[Step], pins_at_full: usize) {
    let length = memory.len();
    let (consumer, _) = attach(&mut region);
    let (mut pinned, mut newest) = (Vec::<(Version, Vec<u8>)>::new(), Vec::new());
    let mut view: Option<View> = None;
    for step in steps {
        match step {
            Step::Write { at, len, value } => {
                let end = (at + len).min(length);
                memory[*at..end].fill(*value);
                region.declare(*at..end).unwrap();
            }
            // The bytes of the next version, piece by piece and behind the back of what follows.
            Step::CopyAhead(budget) => match region.copy_ahead(*budget) {
                Ok(done) => assert!(done.bytes <= budget + PAGE_BYTES),
                Err(PublishError::Full { .. }) => {}
                Err(error) => panic!("{error}"),
            },
            Step::Publish => match region.publish() {
                Ok(done) => {
                    assert_ne!(done.has_raced, Some(true));
                    newest = memory.to_vec();
                }
                // The newest stays besides what is pinned here and by the view.
                Err(PublishError::Full { .. }) => {
                    assert!(pinned.len() + usize::from(view.is_some()) >= pins_at_full);
                }
                Err(error) => panic!("{error}"),
            },
            Step::Pin if pinned.len() < 4 => match consumer.latest() {
                Ok(version) => pinned.push((version, newest.clone())),
                Err(_) => assert!(newest.is_empty()),
            },
            Step::Pin => {}
            Step::Unpin(at) if *at < pinned.len() => drop(pinned.swap_remove(*at)),
            Step::Unpin(_) => {}
            Step::Show(at) if *at < pinned.len() => {
                let (version, wanted) = &pinned[*at];
                let same = consumer.numbered(version.number()).unwrap();
                match &mut view {
                    Some(view) => drop(view.advance(same).unwrap()),
                    None => view = Some(View::new(same).unwrap()),
                }
                let mut shown = vec![0; length];
                view.as_ref().unwrap().read(0, &mut shown).unwrap();
                assert!(shown == *wanted, "the view shows another version");
            }
            Step::Show(_) => {}
        }
        for (version, wanted) in &pinned {
            assert!(content(version) == *wanted, "version {} changed", version.number());
        }
    }
}
