//! What a program is told to do with many named regions, none of which it keeps.

use heliostat_stub_memory::{Memory, MemoryError, Rights};

use super::{number, pattern};

/// Bytes at the beginning of each region that are written and read.
const USED: u64 = 40;

fn name(at: u64) -> String {
    format!("many/{at}")
}

/// Makes, uses, counts or frees the regions `first` and on.
pub fn on(memory: &Memory, what: &str, numbers: &[u64]) -> Result<String, MemoryError> {
    match (what, numbers) {
        ("make", [first, count, bytes]) => {
            for at in *first..first + count {
                memory.allocate(*bytes).name(&name(at)).lasting().make()?;
            }
        }
        ("use", [first, count, step]) => {
            for at in (*first..first + count).step_by(*step as usize) {
                let region = memory.map(&name(at), Rights::DATA)?;
                region.write(0, &pattern(at, 0, USED))?;
                let mut found = vec![0; USED as usize];
                region.read(0, &mut found)?;
                if found != pattern(at, 0, USED) {
                    return Ok(format!("different in {at}"));
                }
            }
        }
        ("free", [first, count]) => {
            for at in *first..first + count {
                memory.map(&name(at), Rights::DATA.and(Rights::MANAGE))?.free()?;
            }
        }
        ("count", []) => return Ok(memory.list("many/")?.len().to_string()),
        _ => panic!("{what} {numbers:?}"),
    }
    Ok("done".into())
}

/// Keeps handles on new regions until that is refused; how many, and the refusal.
pub fn keep_until_refused(
    memory: &Memory,
    most: &str,
) -> (Vec<heliostat_stub_memory::Region>, String) {
    let mut kept = Vec::new();
    for _ in 0..number(most) {
        match memory.allocate(64).make() {
            Ok(region) => kept.push(region),
            Err(error) => return (kept, super::told(&error)),
        }
    }
    (kept, "not refused".into())
}
