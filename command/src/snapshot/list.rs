//! `heliostat snapshot list`: the named regions, and what each shows to who attaches.
//!
//! Attaching is what any consumer does, so it is what the rules allow; of a region that may not be
//! attached to, only what the control plane lists is shown.

use heliostat_base::clock::monotonic_ns;
use heliostat_stub_snapshot::{AttachError, Attachment};
use serde_json::{json, Value};

use super::error::SnapshotError;
use super::live::{attached, listed, Listed};
use crate::args::Format;
use crate::show::print;
use crate::table::{bytes, Table};

/// Longest part of a description in the table; JSON has all of it.
const DESCRIPTION_CHARS: usize = 48;

/// What attaching shows.
struct Seen {
    bytes: u64,
    versions: Vec<u64>,
    newest: u64,
    published_ns: Option<u64>,
    description: String,
}

impl Seen {
    fn of(region: &Attachment) -> Self {
        // A region without a version, or whose versions pass too fast to be pinned, has no age.
        let newest: Result<_, AttachError> = region.latest();
        Self {
            bytes: region.shape().length,
            versions: region.alive(),
            newest: region.latest_number(),
            published_ns: newest.ok().map(|version| version.published_ns()),
            description: String::from_utf8_lossy(&region.description()).into_owned(),
        }
    }
}

/// Prints the regions.
pub fn list(format: &Format) -> Result<(), SnapshotError> {
    let own = rustix::process::geteuid().as_raw();
    let mut rows = Vec::new();
    for region in listed(&format.place)? {
        let owner = (region.uid != own).then_some(region.uid);
        let seen = attached(&format.place, &region.name, owner);
        rows.push((region, seen.map(|region| Seen::of(&region))));
    }
    let text = match format.json {
        true => format!("{}\n", Value::Array(rows.iter().map(row_json).collect())),
        false => table(&rows),
    };
    Ok(print(&text)?)
}

fn age_ns(seen: &Seen) -> Option<u64> {
    seen.published_ns.map(|at| monotonic_ns().saturating_sub(at))
}

fn row_json((region, seen): &(Listed, Result<Seen, SnapshotError>)) -> Value {
    let mut row = json!({
        "name": region.name,
        "uid": region.uid,
        "generation": region.generation,
        "pid": region.pid,
        "promised_bytes": region.promised_bytes,
        "consumers": region.consumers,
    });
    let more = match seen {
        Ok(seen) => json!({
            "bytes": seen.bytes,
            "newest": seen.newest,
            "age_ns": age_ns(seen),
            "versions": seen.versions,
            "description": seen.description,
        }),
        Err(error) => json!({ "not_attached": error.to_string() }),
    };
    if let (Some(row), Value::Object(more)) = (row.as_object_mut(), more) {
        row.extend(more);
    }
    row
}

fn table(rows: &[(Listed, Result<Seen, SnapshotError>)]) -> String {
    let columns = [
        "name",
        "#uid",
        "#gen",
        "#pid",
        "#size",
        "#newest",
        "#age",
        "#alive",
        "#consumers",
        "description",
    ];
    let mut table = Table::new(&columns);
    for (region, seen) in rows {
        let [uid, generation] = [u64::from(region.uid), region.generation].map(|n| n.to_string());
        let (pid, consumers) = (region.pid.to_string(), region.consumers.len().to_string());
        let [size, newest, age, alive, description] = match seen {
            Ok(seen) => cells(seen),
            Err(_) => ["", "", "", "", "(not yours to attach to)"].map(str::to_owned),
        };
        let name = region.name.clone();
        table.row([name, uid, generation, pid, size, newest, age, alive, consumers, description]);
    }
    match rows.is_empty() {
        true => "no region has a name now\n".to_owned(),
        false => table.render(),
    }
}

fn cells(seen: &Seen) -> [String; 5] {
    let newest = if seen.newest == 0 { "none".to_owned() } else { seen.newest.to_string() };
    let age = age_ns(seen).map_or(String::new(), |ns| format!("{:.1} s", ns as f64 / 1e9));
    let shown = seen.description.chars().filter(|c| !c.is_control());
    let shown = shown.take(DESCRIPTION_CHARS).collect();
    [bytes(seen.bytes), newest, age, seen.versions.len().to_string(), shown]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region() -> Listed {
        let (name, consumers) = ("model/a".to_owned(), vec![7, 8]);
        Listed { name, uid: 5, generation: 2, pid: 9, promised_bytes: 1 << 23, consumers }
    }

    #[test]
    fn a_region_that_one_may_attach_to_shows_its_versions() {
        let description = "a\u{1b}b".to_owned();
        let versions = vec![3, 4];
        let seen = Seen { bytes: 4096, versions, newest: 4, published_ns: None, description };
        let rows = [(region(), Ok(seen))];
        let wanted =
            "name     uid  gen  pid     size  newest  age  alive  consumers  description\n\
                      model/a    5    2    9  4.0 KiB       4           2          2  ab\n";
        assert_eq!(table(&rows), wanted);
        assert_eq!(row_json(&rows[0])["versions"], json!([3, 4]));
    }
}
