//! RocksDB as the system has it, by its C interface: a put with `sync` waits for its write-ahead log.
//!
//! Loaded when it is measured, so that nothing here has to build it, and nothing else needs it.
//! HELIOSTAT_BENCH_ROCKSDB names the library where the system does not find it. What is written stays in
//! memory until the log is 1 GiB long: what is measured is the log.

use std::ffi::{c_char, c_int, c_uchar, c_void, CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::way::{Failure, Way};

const NAMES: [&str; 2] = ["librocksdb.so.7.8", "librocksdb.so"];
const KEYS: u64 = 1000;
const BUFFER_BYTES: usize = 1 << 30;

/// A pointer to something of RocksDB's.
type Opaque = *mut c_void;
type Put = unsafe extern "C" fn(
    Opaque,
    Opaque,
    *const c_char,
    usize,
    *const c_char,
    usize,
    *mut *mut c_char,
);

/// An open database, and how it is written to.
pub struct Rocks {
    database: Opaque,
    how: Opaque,
    put: Put,
    next: AtomicU64,
}

// SAFETY: RocksDB's databases and write options may be used by any number of threads at once; the
// pointers are never written again.
unsafe impl Sync for Rocks {}

impl Rocks {
    pub fn new(folder: &Path) -> Result<Rocks, Failure> {
        let library = Library::load()?;
        let path = CString::new(folder.join("rocks").as_os_str().as_bytes())?;
        let mut error = null_mut();
        // SAFETY: the names are those of RocksDB's C interface (rocksdb/c.h), with its types.
        unsafe {
            let make: unsafe extern "C" fn() -> Opaque = library.find(c"rocksdb_options_create")?;
            let create: unsafe extern "C" fn(Opaque, c_uchar) =
                library.find(c"rocksdb_options_set_create_if_missing")?;
            let buffer: unsafe extern "C" fn(Opaque, usize) =
                library.find(c"rocksdb_options_set_write_buffer_size")?;
            let open: unsafe extern "C" fn(Opaque, *const c_char, *mut *mut c_char) -> Opaque =
                library.find(c"rocksdb_open")?;
            let writing: unsafe extern "C" fn() -> Opaque =
                library.find(c"rocksdb_writeoptions_create")?;
            let sync: unsafe extern "C" fn(Opaque, c_uchar) =
                library.find(c"rocksdb_writeoptions_set_sync")?;
            let options = make();
            create(options, 1);
            buffer(options, BUFFER_BYTES);
            let database = open(options, path.as_ptr(), &mut error);
            told(error)?;
            let how = writing();
            sync(how, 1);
            let put = library.find(c"rocksdb_put")?;
            Ok(Rocks { database, how, put, next: AtomicU64::new(0) })
        }
    }
}

impl Way for Rocks {
    fn append(&self, payload: &[u8]) -> Result<(), Failure> {
        let key = (self.next.fetch_add(1, Ordering::Relaxed) % KEYS).to_be_bytes();
        let mut error = null_mut();
        // SAFETY: both pointers are what RocksDB gave, key and payload live for the call.
        unsafe {
            (self.put)(
                self.database,
                self.how,
                key.as_ptr().cast(),
                key.len(),
                payload.as_ptr().cast(),
                payload.len(),
                &mut error,
            );
        }
        told(error)
    }
}

/// What RocksDB said of a call, if that failed.
fn told(error: *mut c_char) -> Result<(), Failure> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: RocksDB gives a string that ends with a zero, and that is ours; the program ends soon.
    let text = unsafe { CStr::from_ptr(error) };
    Err(format!("RocksDB: {}", text.to_string_lossy()).into())
}

/// A library that stays loaded.
struct Library(Opaque);

impl Library {
    fn load() -> Result<Library, Failure> {
        let named = std::env::var("HELIOSTAT_BENCH_ROCKSDB").ok();
        let names = named.iter().map(String::as_str).chain(NAMES);
        for name in names {
            let name = CString::new(name)?;
            let flags: c_int = libc::RTLD_NOW | libc::RTLD_LOCAL;
            // SAFETY: the library's first code runs, as that of any library that is linked.
            let found = unsafe { libc::dlopen(name.as_ptr(), flags) };
            if !found.is_null() {
                return Ok(Library(found));
            }
        }
        Err("there is no librocksdb here (Debian: librocksdb7.8)".into())
    }

    /// # Safety
    /// `F` is the type of the function of this name.
    unsafe fn find<F>(&self, name: &CStr) -> Result<F, Failure> {
        // SAFETY: the handle is of a library that stays loaded.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        if found.is_null() {
            return Err(format!("librocksdb has no {}", name.to_string_lossy()).into());
        }
        assert_eq!(size_of::<F>(), size_of::<Opaque>(), "a pointer to a function");
        // SAFETY: by this function's own promise; it is as long as a pointer.
        Ok(unsafe { std::mem::transmute_copy(&found) })
    }
}
