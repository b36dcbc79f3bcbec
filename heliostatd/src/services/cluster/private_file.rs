//! Files that only their owner may read: secrets, keys, passwords.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// More than any key, or 64 digits and white space around them.
const BYTES_MAX: u64 = 65_536;

/// Reads the file that a key of `[cluster]` names.
///
/// # Errors
/// It is not there, others than its owner may read or change it, it belongs to somebody else, or it
/// is no text: with key and file, in words.
pub fn read(path: &Path, key: &str) -> Result<String, String> {
    let wrong = |what: String| format!("cluster.{key}: {}: {what}", path.display());
    // What is opened is looked at, so that it cannot be another file by then.
    let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    let found = file.metadata().map_err(|error| wrong(error.to_string()))?;
    if !found.is_file() {
        return Err(wrong("it is no regular file".to_owned()));
    }
    let mode = found.mode() & 0o777;
    if mode & 0o077 != 0 {
        let what = "others than its owner may read or change it; chmod 600 it";
        return Err(wrong(format!("its mode is {mode:o}: {what}")));
    }
    let (owner, own) = (found.uid(), rustix::process::geteuid().as_raw());
    if owner != own && owner != 0 {
        return Err(wrong(format!("it belongs to user {owner}, not to {own} or root")));
    }
    let mut text = String::new();
    let read = file.take(BYTES_MAX).read_to_string(&mut text);
    read.map_err(|error| wrong(error.to_string()))?;
    Ok(text)
}
