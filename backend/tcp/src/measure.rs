//! Whether carrying pays on this machine: what is measured, and the rule.
//!
//! A carried message costs the program two looks at lines of memory that another core has written,
//! and spares it its part of the network stack; the stack's work is done all the same, on another
//! core. So it pays where there is a core for it, and the stack takes much longer than the lines.

use heliostat_base::sync::{AtomicU32, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use heliostat_base::{clock, spin};

/// Cores below which a loop takes the one that its program, or the peer, needs.
pub const CORES_MIN: u64 = 3;
/// The stack must take so many times what the lines take.
const GAIN_MIN: u64 = 4;
const MESSAGES: u64 = 400;
const TURNS: u32 = 2000;
/// A measurement that others disturb ends all the same.
const MEASURE_NS: u64 = 50_000_000;

/// What was measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measured {
    /// Sending and receiving one message of 64 bytes by TCP on this machine.
    pub stack_ns: u64,
    /// A line of memory to another core and back.
    pub line_ns: u64,
}

/// What the rule goes by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// Cores that the control plane and its programs may use.
    pub cores: u64,
    /// Of these, cores that are kept for loops.
    pub kernel_cores: u64,
    /// Nothing before it was measured.
    pub measured: Option<Measured>,
}

/// What the rule says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It pays.
    Pays,
    /// There are too few cores.
    FewCores,
    /// Nothing has been measured yet.
    NotMeasured,
    /// The memory between cores is too slow beside the stack.
    SlowLines,
}

impl Verdict {
    /// In words for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Pays => "there is a core for it, and the stack takes several times what it costs",
            Self::FewCores => {
                "there are too few cores: a loop would take the one that the program or its peer needs"
            }
            Self::NotMeasured => "it is being measured whether it pays",
            Self::SlowLines => "memory between cores takes too long beside the network stack",
        }
    }
}

impl Facts {
    /// Whether carrying pays.
    pub fn judge(&self) -> Verdict {
        if self.cores < CORES_MIN && self.kernel_cores == 0 || self.cores < 2 {
            return Verdict::FewCores;
        }
        match self.measured {
            None => Verdict::NotMeasured,
            Some(Measured { stack_ns, line_ns }) if stack_ns < line_ns * GAIN_MIN => {
                Verdict::SlowLines
            }
            Some(_) => Verdict::Pays,
        }
    }
}

/// Measures; takes some ten milliseconds.
///
/// # Errors
/// This machine's own network does not answer, or a thread is not to be had.
pub fn measure() -> std::io::Result<Measured> {
    Ok(Measured { stack_ns: measure_stack()?, line_ns: measure_lines()? })
}

fn measure_stack() -> std::io::Result<u64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut near = TcpStream::connect(listener.local_addr()?)?;
    let (mut far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    let (message, mut room) = ([7u8; 64], [0u8; 64]);
    let (began, mut least) = (clock::monotonic_ns(), u64::MAX);
    for _ in 0..MESSAGES {
        let start = clock::monotonic_ns();
        near.write_all(&message)?;
        far.read_exact(&mut room)?;
        let end = clock::monotonic_ns();
        least = least.min(end - start);
        if end - began > MEASURE_NS {
            break;
        }
    }
    Ok(least)
}

/// Two threads pass a number to each other; the best tenth counts, since others may use the cores.
fn measure_lines() -> std::io::Result<u64> {
    let line = Arc::new(AtomicU32::new(0));
    let theirs = line.clone();
    let answerer = std::thread::Builder::new().name("heliostat-line".into()).spawn(move || {
        let mut turns = spin::Spin::new();
        loop {
            match theirs.load(Acquire) {
                u32::MAX => return,
                number if number % 2 == 1 => theirs.store(number + 1, Release),
                _ => _ = turns.turn(),
            }
        }
    })?;
    let (began, mut least) = (clock::monotonic_ns(), u64::MAX);
    for turn in 0..TURNS {
        let start = clock::monotonic_ns();
        line.store(2 * turn + 1, Release);
        let mut turns = spin::Spin::new();
        while line.load(Acquire) != 2 * turn + 2 && clock::monotonic_ns() - began < MEASURE_NS {
            turns.turn();
        }
        let end = clock::monotonic_ns();
        if end - began >= MEASURE_NS {
            break;
        }
        least = least.min(end - start);
    }
    line.swap(u32::MAX, AcqRel);
    let _ = answerer.join();
    Ok(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Measured = Measured { stack_ns: 5000, line_ns: 300 };

    #[test]
    fn two_cores_are_too_few_unless_one_is_kept_for_loops() {
        let facts = Facts { cores: 2, kernel_cores: 0, measured: Some(GOOD) };
        assert_eq!(facts.judge(), Verdict::FewCores);
        assert_eq!(Facts { kernel_cores: 1, ..facts }.judge(), Verdict::Pays);
        assert_eq!(Facts { cores: 1, kernel_cores: 1, ..facts }.judge(), Verdict::FewCores);
    }

    #[test]
    fn many_cores_pay_once_measured_and_if_their_memory_is_near() {
        let facts = Facts { cores: 16, kernel_cores: 0, measured: None };
        assert_eq!(facts.judge(), Verdict::NotMeasured);
        assert_eq!(Facts { measured: Some(GOOD), ..facts }.judge(), Verdict::Pays);
        let far = Measured { line_ns: 2000, ..GOOD };
        assert_eq!(Facts { measured: Some(far), ..facts }.judge(), Verdict::SlowLines);
    }

    #[test]
    fn a_measurement_on_this_machine_gives_both_numbers() {
        let measured = measure().unwrap();
        assert!(measured.stack_ns > 0 && measured.line_ns > 0);
    }
}
