//! Which run of the machine this is: what an earlier one had in its memory is lost.

use std::io;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use heliostat_base::clock;

/// The kernel's number of one run of the machine.
pub type BootId = [u8; 16];

const FILE: &str = "/proc/sys/kernel/random/boot_id";
/// The clock is set while a machine comes up.
const MARGIN: Duration = Duration::from_secs(2);

/// One run of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Boot {
    /// Its number.
    pub id: BootId,
    /// About when it began, by the clock that files' times are of.
    pub began: SystemTime,
}

impl Boot {
    /// This one.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn now() -> io::Result<Boot> {
        let text = std::fs::read_to_string(FILE)?;
        let id = parse(&text).ok_or(io::ErrorKind::InvalidData)?;
        let since = Duration::from_nanos(clock::boot_ns());
        let began = SystemTime::now().checked_sub(since + MARGIN).unwrap_or(UNIX_EPOCH);
        Ok(Boot { id, began })
    }
}

/// 32 hexadecimal digits with dashes between them.
fn parse(text: &str) -> Option<BootId> {
    let digits: Vec<u8> = text
        .trim()
        .chars()
        .filter(|it| *it != '-')
        .map(|it| it.to_digit(16).map(|it| it as u8))
        .collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
    bytes.try_into().ok().filter(|_| digits.len() == 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_run_has_a_number_and_a_beginning_in_the_past() {
        let (one, other) = (Boot::now().expect("told"), Boot::now().expect("told"));
        assert_eq!(one.id, other.id);
        assert!(one.began < SystemTime::now());
        assert_eq!(parse("00112233-4455-6677-8899-aabbccddeeff\n").map(|id| id[15]), Some(0xff));
        assert_eq!(parse("00112233-4455-6677-8899-aabbccddee"), None);
        assert_eq!(parse("x0112233-4455-6677-8899-aabbccddeeff"), None);
    }
}
