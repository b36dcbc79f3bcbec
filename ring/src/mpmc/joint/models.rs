//! Loom: what a member commits arrives once and in order, wherever another one dies.

use loom::thread;

use super::*;
use crate::memory::words::WordMemory;
use crate::spsc::{Refresh, SpscConsumer};
use crate::turn::models::{first, Words};
use crate::turn::MemberId;

/// Where the first member dies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dies {
    Never,
    /// It has the turn, and has pushed nothing.
    Begun,
    /// Its element is committed, and the head does not count it.
    Pushed,
    /// The head counts it, and the turn is still its own.
    Counted,
}

fn pusher(
    memory: &Arc<WordMemory>,
    words: &loom::sync::Arc<Words>,
    member: MemberId,
) -> Pusher<loom::sync::Arc<Words>, WordMemory> {
    let turn = Turn::new(words.clone(), member);
    let (memory, geometry) = (memory.clone(), memory.geometry());
    let (head, tail) = Default::default();
    Pusher { memory, geometry, turn, batch: Batch::None, head, tail }
}

fn push_and_die(mut first: Pusher<loom::sync::Arc<Words>, WordMemory>, words: &Words, dies: Dies) {
    let record = [1u8];
    let mut request = Request { record: record.as_ptr(), len: 1, answer: Ok(()) };
    first.batch = first.begin();
    if dies != Dies::Begun {
        first.serve(&mut request);
        assert_eq!(request.answer, Ok(()));
    }
    match dies {
        Dies::Never => first.finish(),
        Dies::Begun | Dies::Pushed => words.die(0),
        Dies::Counted => {
            first.memory.word(Word::Head).store(first.head.value(), Ordering::Release);
            words.die(0);
        }
    }
}

/// The first member pushes once and dies perhaps, the second pushes twice, and the consumer takes all.
fn play(dies: Dies) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let (memory, words) = (WordMemory::new(128), Words::of(2, dies != Dies::Never));
        let mut consumer = SpscConsumer::new(memory.clone(), Refresh::Lazy).expect("free");
        let (dying, its) = (pusher(&memory, &words, first(0)), words.clone());
        let other = thread::spawn(move || push_and_die(dying, &its, dies));
        let second = JointProducer::new(memory, Turn::new(words, first(1))).expect("free");
        second.push(&[2]).expect("fits");
        second.push(&[3]).expect("fits");
        other.join().unwrap();
        let (mut found, mut byte) = (Vec::new(), [0]);
        while consumer.pop(&mut byte).is_ok() {
            found.push(byte[0]);
        }
        let (ones, own): (Vec<u8>, Vec<u8>) = found.into_iter().partition(|value| *value == 1);
        assert_eq!((ones.len(), own), (usize::from(dies != Dies::Begun), vec![2, 3]));
    });
}

#[test]
fn two_members_push_and_nothing_is_lost() {
    play(Dies::Never);
}

#[test]
fn one_that_died_before_it_pushed_leaves_its_place_free() {
    play(Dies::Begun);
}

#[test]
fn an_element_that_the_head_does_not_count_is_not_written_over() {
    play(Dies::Pushed);
}

#[test]
fn one_that_died_before_it_gave_the_turn_back_loses_nothing() {
    play(Dies::Counted);
}

/// The consumer takes the dead one's element before anybody goes on behind it.
#[test]
fn an_element_that_is_released_before_the_head_counts_it_is_gone_on_behind() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let (memory, words) = (WordMemory::new(128), Words::of(2, true));
        let mut consumer = SpscConsumer::new(memory.clone(), Refresh::Lazy).expect("free");
        push_and_die(pusher(&memory, &words, first(0)), &words, Dies::Pushed);
        let taker = thread::spawn(move || {
            let mut found = Vec::new();
            while found.len() < 2 {
                let mut byte = [0];
                match consumer.poll(&mut byte) {
                    Ok(_) => found.push(byte[0]),
                    Err(_) => thread::yield_now(),
                }
            }
            found
        });
        let second = JointProducer::new(memory, Turn::new(words, first(1))).expect("free");
        second.push(&[2]).expect("fits");
        assert_eq!(taker.join().unwrap(), [1, 2]);
    });
}

/// Who gets the dead one's number goes on behind what that has committed, as any other would.
#[test]
fn a_successor_goes_on_behind_what_its_number_has_committed() {
    for dies in [Dies::Begun, Dies::Pushed, Dies::Counted] {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(move || {
            let (memory, words) = (WordMemory::new(128), Words::of(1, true));
            let mut consumer = SpscConsumer::new(memory.clone(), Refresh::Lazy).expect("free");
            let (dying, its) = (pusher(&memory, &words, first(0)), words.clone());
            let other = thread::spawn(move || push_and_die(dying, &its, dies));
            let turn = Turn::new(words.clone(), words.succeed(0));
            let second = JointProducer::new(memory, turn).expect("free");
            second.push(&[2]).expect("fits");
            other.join().unwrap();
            let (mut found, mut byte) = (Vec::new(), [0]);
            while consumer.pop(&mut byte).is_ok() {
                found.push(byte[0]);
            }
            let wanted: &[u8] = if dies == Dies::Begun { &[2] } else { &[1, 2] };
            assert_eq!(found, wanted);
        });
    }
}
