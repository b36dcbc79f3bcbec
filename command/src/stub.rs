//! Where the stub lies: the library that a program is run with.

use std::path::{Path, PathBuf};

/// Environment variable that names the stub, for builds that lie elsewhere.
const STUB_VARIABLE: &str = "HELIOSTAT_STUB";
/// File name of the stub.
pub const STUB: &str = "libheliostat_posix.so";

/// The stub: named by the environment, beside this program, or where a package puts it.
pub fn find_stub() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os(STUB_VARIABLE).filter(|path| !path.is_empty()) {
        let named = PathBuf::from(named);
        let absolute = std::path::absolute(&named).unwrap_or(named);
        return match absolute.is_file() {
            true => Ok(absolute),
            false => {
                Err(format!("{STUB_VARIABLE} names {}, which is not there", absolute.display()))
            }
        };
    }
    let own = std::env::current_exe().map_err(|error| format!("who am I? {error}"))?;
    let folder = own.parent().unwrap_or(Path::new("/"));
    let packaged = folder.parent().unwrap_or(folder).join("lib/heliostat").join(STUB);
    let mut places = [folder.join(STUB), packaged].into_iter();
    places.find(|place| place.is_file()).ok_or_else(|| {
        format!("the stub {STUB} is neither in {} nor in ../lib/heliostat", folder.display())
    })
}
