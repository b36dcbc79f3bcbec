//! Verdicts that depend on an argument's value. Never on what a pointer points to.

use heliostat_backend_seal::{Instruction, Verdict};

/// When a call passes; otherwise it is asked about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Condition {
    /// The low word of the argument is one of these. The kernel ignores the high word of an
    /// `int`, so must this.
    LowIn(u8, &'static [u32]),
    /// The low word of the argument has none of these bits.
    LowWithout(u8, u32),
    /// The low word of the argument has one of the first bits and none of the others.
    LowWith(u8, u32, u32),
    /// All 64 bits of the argument are zero: a null pointer, or no flag at all.
    Zero(u8),
    /// Both low words are zero: this process, itself.
    LowZeros(u8, u8),
    /// The low word of the argument is another number.
    LowNot(u8, u32),
    /// The low word of the first argument is zero, that of the second is another number.
    LowZeroAndNot(u8, u8, u32),
    /// The low words of the first and third argument are -1, that of the second is root's or one of
    /// these: the effective user changes, the real and the saved one stay.
    Effective(&'static [u32]),
    /// Low words of the first three arguments: domain, type without its flags, and protocol are
    /// each one of these.
    Socket(&'static [u32], &'static [u32], &'static [u32]),
    /// The low word of the third argument is one of those that the low word of the second has:
    /// level and number of a socket option.
    Option(&'static [(u32, &'static [u32])]),
}

/// Byte offsets of an argument's halves (source: linux/seccomp.h, little endian).
const fn low(argument: u8) -> u32 {
    16 + 8 * argument as u32
}

const fn high(argument: u8) -> u32 {
    low(argument) + 4
}

/// The type of a socket without its flags (source: net.h, SOCK_TYPE_MASK).
const SOCKET_TYPE: u32 = 0xf;

/// Ends in a verdict whatever the argument is: it passes, or `otherwise`.
pub fn instructions(condition: &Condition, otherwise: Verdict) -> Vec<Instruction> {
    let mut whole = match *condition {
        Condition::LowIn(argument, values) => one_of(argument, u32::MAX, values),
        Condition::LowWithout(argument, bits) => {
            vec![Instruction::load(low(argument)), Instruction::has_any(bits, 1, 0)]
        }
        Condition::LowWith(argument, some, none) => vec![
            Instruction::load(low(argument)),
            Instruction::has_any(none, 2, 0),
            Instruction::has_any(some, 0, 1),
        ],
        Condition::Zero(argument) => both_zero(low(argument), high(argument)),
        Condition::LowZeros(one, other) => both_zero(low(one), low(other)),
        Condition::LowNot(argument, value) => {
            vec![Instruction::load(low(argument)), Instruction::is_equal(value, 1, 0)]
        }
        Condition::LowZeroAndNot(zero, argument, value) => vec![
            Instruction::load(low(zero)),
            Instruction::is_equal(0, 0, 3),
            Instruction::load(low(argument)),
            Instruction::is_equal(value, 1, 0),
        ],
        Condition::Socket(domains, types, protocols) => {
            let ends = [Instruction::skip(1), Instruction::end(otherwise)];
            let mut whole = one_of(0, u32::MAX, domains);
            whole.extend(ends);
            whole.extend(one_of(1, SOCKET_TYPE, types));
            whole.extend(ends);
            whole.extend(one_of(2, u32::MAX, protocols));
            whole
        }
        Condition::Effective(users) => {
            let ends = [Instruction::skip(1), Instruction::end(otherwise)];
            let mut whole = one_of(0, u32::MAX, &[u32::MAX]);
            whole.extend(ends);
            whole.extend(one_of(2, u32::MAX, &[u32::MAX]));
            whole.extend(ends);
            whole.extend(one_of(1, u32::MAX, &[&[0], users].concat()));
            whole
        }
        Condition::Option(levels) => return option(levels, otherwise),
    };
    whole.push(Instruction::end(Verdict::Allow));
    whole.push(Instruction::end(otherwise));
    whole
}

/// A level at a time, each with an end of its own: conditional jumps reach 255 instructions.
fn option(levels: &[(u32, &[u32])], otherwise: Verdict) -> Vec<Instruction> {
    let mut whole = Vec::new();
    for (level, options) in levels {
        let mut own = one_of(2, u32::MAX, options);
        own.extend([Instruction::end(Verdict::Allow), Instruction::end(otherwise)]);
        whole.extend([Instruction::load(low(1)), Instruction::is_equal(*level, 1, 0)]);
        whole.push(Instruction::skip(own.len() as u32));
        whole.extend(own);
    }
    whole.push(Instruction::end(otherwise));
    whole
}

/// Goes on with the next instruction if the word is one of `values`, else with the one after.
fn one_of(argument: u8, mask: u32, values: &[u32]) -> Vec<Instruction> {
    let mut whole = vec![Instruction::load(low(argument))];
    if mask != u32::MAX {
        whole.push(Instruction::keep(mask));
    }
    for (place, value) in values.iter().enumerate() {
        let left = (values.len() - 1 - place) as u8;
        whole.push(Instruction::is_equal(*value, left, u8::from(left == 0)));
    }
    whole
}

/// As `one_of`: both words are zero?
fn both_zero(one: u32, other: u32) -> Vec<Instruction> {
    vec![
        Instruction::load(one),
        Instruction::is_equal(0, 0, 3),
        Instruction::load(other),
        Instruction::is_equal(0, 0, 1),
    ]
}
