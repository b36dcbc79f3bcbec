//! What a program is told to do with one region.

use std::time::Duration;

use heliostat_stub_memory::{MemoryError, Region};

use super::{change_words, number, pattern, rights};

/// What is about one region.
pub fn on(region: &Region, words: &[&str]) -> Result<String, MemoryError> {
    let word = |value: u64| Ok(value.to_string());
    match *words {
        ["id", _] => return Ok(format!("{} {}", region.id().index, region.id().generation)),
        ["size", _] => return word(region.size()?),
        ["read", _, offset, len] => return read(region, number(offset), number(len)),
        ["add", _, offset, more, times] => {
            let mut old = 0;
            for _ in 0..number(times) {
                old = region.fetch_add(number(offset), number(more))?;
            }
            return word(old);
        }
        ["compare_swap", _, offset, expected, new] => {
            return word(region.compare_swap(number(offset), number(expected), number(new))?)
        }
        ["record", _, path, count, words, seed] => {
            change_words(region, path, (number(count), number(words), number(seed)))?;
        }
        ["swap", _, offset, new] => return word(region.swap(number(offset), number(new))?),
        ["check", _, seed, offset, len] => {
            let mut found = vec![0; number(len) as usize];
            region.read(number(offset), &mut found)?;
            let is_same = found == pattern(number(seed), number(offset), number(len));
            return Ok(if is_same { "same" } else { "different" }.into());
        }
        ["write", _, offset, text] => region.write(number(offset), text.as_bytes())?,
        ["fill", _, seed, offset, len] => {
            region.write(number(offset), &pattern(number(seed), number(offset), number(len)))?;
        }
        ["set", _, offset, bytes, value] => {
            region.set(number(offset), number(bytes), number(value) as u8)?;
        }
        ["grow", _, bytes] => region.grow(number(bytes))?,
        ["relocate", _, times] => {
            for _ in 0..number(times) {
                region.relocate()?;
            }
        }
        ["move_to", _, node] => region.move_to(number(node))?,
        ["where", _] => {
            return Ok(region.node().map_or("here".into(), |node| format!("on {node}")))
        }
        ["refill", _, seed, offset, len, times] => return refill(region, seed, offset, len, times),
        ["rename", _, "-", what] => region.rename(None, rights(what))?,
        ["rename", _, name, what] => region.rename(Some(name), rights(what))?,
        ["appoint", _, user, what] => region.appoint(number(user) as u32, rights(what))?,
        ["class", _, word] => {
            let classes = heliostat_abi::cluster::Class::ALL;
            let class = classes.into_iter().find(|it| it.word() == word).unwrap();
            region.set_class(class)?
        }
        ["lasting", _, whether] => region.set_lasting(whether == "yes")?,
        ["await_stale", _] => return await_stale(region),
        _ => panic!("{words:?}"),
    }
    Ok("done".into())
}

/// Writes bytes that say where they are again and again, with other seeds, and reads each of them back;
/// the last of them have the first seed.
fn refill(
    region: &Region,
    seed: &str,
    offset: &str,
    len: &str,
    times: &str,
) -> Result<String, MemoryError> {
    let (seed, offset, len) = (number(seed), number(offset), number(len));
    let mut found = vec![0; len as usize];
    for time in (0..number(times)).rev() {
        let wanted = pattern(seed + time, offset, len);
        region.write(offset, &wanted)?;
        region.read(offset, &mut found)?;
        if found != wanted {
            return Ok(format!("different after {time} more"));
        }
    }
    Ok("same".into())
}

/// Bytes as text, in which a zero is a dot.
fn read(region: &Region, offset: u64, len: u64) -> Result<String, MemoryError> {
    let mut found = vec![0; len as usize];
    region.read(offset, &mut found)?;
    let text = found.iter().map(|byte| if *byte == 0 { '.' } else { char::from(*byte) });
    Ok(format!("read {}", text.collect::<String>()))
}

/// Reads until the region is stale; says if it has ever seen a byte that is not `a`.
fn await_stale(region: &Region) -> Result<String, MemoryError> {
    let mut found = vec![0; 4096];
    loop {
        match region.read(0, &mut found) {
            Ok(()) if found.iter().any(|byte| *byte != b'a') => return Ok("other bytes".into()),
            Ok(()) => std::thread::sleep(Duration::from_micros(100)),
            Err(MemoryError::Stale { .. }) => return Ok("stale".into()),
            Err(error) => return Err(error),
        }
    }
}
