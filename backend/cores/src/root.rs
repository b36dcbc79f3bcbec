//! Where /proc and /sys are looked for: at /, or below a folder that a test has filled.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use heliostat_abi::cores::CpuMask;

/// The longest text that is read of a file: /proc/interrupts of a thousand cores has a megabyte.
const TEXT_BYTES_MAX: u64 = 4 << 20;

/// The root.
#[derive(Clone, Debug)]
pub struct Root(PathBuf);

impl Default for Root {
    fn default() -> Root {
        Root(PathBuf::from("/"))
    }
}

impl Root {
    /// Below a folder.
    pub fn below(folder: impl Into<PathBuf>) -> Root {
        Root(folder.into())
    }

    /// A path below it; `path` begins with a slash.
    pub fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// The text of a file; `None` where it cannot be read.
    pub fn text(&self, path: &str) -> Option<String> {
        let bytes = self.bytes(path)?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The bytes of a file.
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        use std::io::Read;
        let file = fs::File::open(self.path(path)).ok()?;
        let mut bytes = Vec::new();
        file.take(TEXT_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// The number in a file.
    pub fn number(&self, path: &str) -> Option<u32> {
        self.text(path)?.trim().parse().ok()
    }

    /// The set of cores in a file; those beyond the limit make it unreadable.
    pub fn mask(&self, path: &str) -> Option<CpuMask> {
        CpuMask::parse(&self.text(path)?).ok()
    }

    /// Writes a file that is there, as one write.
    pub fn write(&self, path: &str, text: &str) -> io::Result<()> {
        use std::io::Write;
        let file = fs::OpenOptions::new().write(true).truncate(true).open(self.path(path));
        file?.write_all(text.as_bytes())
    }

    /// The names in a folder that are numbers, ascending.
    pub fn numbers_in(&self, path: &str) -> Vec<u32> {
        let names = self.names_in(path);
        let mut numbers: Vec<u32> = names.iter().filter_map(|name| name.parse().ok()).collect();
        numbers.sort_unstable();
        numbers
    }

    /// The names in a folder.
    pub fn names_in(&self, path: &str) -> Vec<String> {
        names(&self.path(path))
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}
