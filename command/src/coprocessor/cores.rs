//! Lists of cores, as `2,4-6`.

use heliostat_base::affinity::CPUS_MAX;

use super::Fault;

/// The cores of a list, in its order; none where nothing is said.
///
/// # Errors
/// What is wrong with the list.
pub(super) fn parse(text: Option<&str>) -> Result<Vec<usize>, Fault> {
    let Some(text) = text else { return Ok(Vec::new()) };
    let wrong = || Fault::Word(format!("--cores {text}: a list is as 2,4-6"));
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
        assert!(parse(None).unwrap().is_empty());
        assert_eq!(parse(Some("3,0-2,7")).unwrap(), [3, 0, 1, 2, 7]);
        for wrong in ["", "a", "2-1", "1,,2", "-3", "99999"] {
            assert!(parse(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
