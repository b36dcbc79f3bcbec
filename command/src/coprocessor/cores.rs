//! On which cores workers run: a list, as `2,4-6`, or those of applications.

use heliostat_abi::place::Surroundings;
use heliostat_base::affinity::{self, CPUS_MAX};

use super::Fault;
use crate::cores;

/// What switches pinning off.
const NONE: &str = "none";

/// The cores of a list, in its order; where nothing is said all that applications may use here, begun at
/// another one by each command; none where workers are not to be pinned.
///
/// # Errors
/// What is wrong with the list.
pub(super) fn chosen(text: Option<&str>, here: &Surroundings) -> Result<Vec<usize>, Fault> {
    match text {
        None => Ok(begun_at(of_applications(here), std::process::id() as usize)),
        Some(NONE) => Ok(Vec::new()),
        Some(list) => parse(list),
    }
}

/// Where cores are parted this process goes where applications go, unless it has a place of its own.
fn of_applications(here: &Surroundings) -> Vec<usize> {
    cores::join(here);
    affinity::allowed(0).map(|set| set.iter().collect()).unwrap_or_default()
}

/// The same cores, begun at another one: commands beside each other do not all meet on the first cores.
fn begun_at(mut cores: Vec<usize>, number: usize) -> Vec<usize> {
    let first = number.checked_rem(cores.len()).unwrap_or(0);
    cores.rotate_left(first);
    cores
}

fn parse(text: &str) -> Result<Vec<usize>, Fault> {
    let wrong = || Fault::Word(format!("--cores {text}: a list is as 2,4-6, or none"));
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.parse().ok().filter(|core| *core < CPUS_MAX);
        let (first, last): (usize, usize) = number(first)
            .zip(number(last))
            .filter(|(first, last)| first <= last)
            .ok_or_else(wrong)?;
        cores.extend(first..=last);
    }
    Ok(cores)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_single_cores_and_ranges_in_their_order() {
        assert_eq!(parse("3,0-2,7").unwrap(), [3, 0, 1, 2, 7]);
        for wrong in ["", "a", "2-1", "1,,2", "-3", "99999"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn commands_begin_at_different_cores_and_use_all_of_them() {
        assert_eq!(begun_at(vec![2, 3, 5], 7), [3, 5, 2]);
        assert_eq!(begun_at(vec![2, 3, 5], 9), [2, 3, 5]);
        assert!(begun_at(Vec::new(), 7).is_empty());
    }
}
