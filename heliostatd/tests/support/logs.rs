//! What daemons under test say, for whoever looks for a cause.

use std::fs::{create_dir_all, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Where the words of the daemon in a folder go: nowhere, or with HELIOSTAT_TEST_LOG to a file of that
/// folder, which has the name of the daemon's own. One that is started again goes on in its file.
pub fn of(folder: &Path) -> Stdio {
    let Some(logs) = std::env::var_os("HELIOSTAT_TEST_LOG").map(PathBuf::from) else {
        return Stdio::null();
    };
    create_dir_all(&logs).unwrap();
    let path = logs.join(folder.file_name().unwrap()).with_extension("log");
    OpenOptions::new().create(true).append(true).open(path).unwrap().into()
}
