//! `heliostat snapshot show`: what a file holds, and whether all of it is as it was written.

use serde_json::json;

use super::error::SnapshotError;
use super::export::each_chunk;
use super::files;
use super::save::summary;
use crate::args::snapshot::ShowArguments;
use crate::show::print;

/// Shows a file; with `--check`, reads it and its bases whole.
pub fn show(asked: &ShowArguments) -> Result<(), SnapshotError> {
    if asked.check {
        let mut chain = files::open_chain(&asked.file)?;
        each_chunk(&mut chain, &asked.file, |_, _| Ok(()))?;
    }
    let file = files::open(&asked.file)?;
    let header = file.header();
    let base = header.base.as_ref().map(|base| String::from_utf8_lossy(&base.name).into_owned());
    let description = String::from_utf8_lossy(&header.description);
    if asked.json {
        let said = json!({
            "name": header.name, "bytes": header.length, "generation": header.generation,
            "version": header.number, "published_unix_ns": header.published_unix_ns,
            "published_ns": header.published_ns, "description": description,
            "file_bytes": file.file_bytes(), "identity": file.identity().to_string(),
            "depth": header.depth, "base": base, "checked": asked.check,
        });
        return Ok(print(&format!("{said}\n"))?);
    }
    let plain = |text: &str| text.chars().filter(|c| !c.is_control()).collect::<String>();
    let mut text = format!("{}\n", summary(&file));
    if let Some(base) = base {
        text.push_str(&format!("builds on {}, {} files below\n", plain(&base), header.depth));
    }
    if !description.is_empty() {
        text.push_str(&format!("description: {}\n", plain(&description)));
    }
    text.push_str(if asked.check { "every page is as it was written\n" } else { "" });
    Ok(print(&text)?)
}
