//! Links the unwinder into what starts often, instead of having it loaded each time: the preloaded
//! library, and the command line, which uses this script as well.
//!
//! The standard library asks for `libgcc_s.so`. The dynamic loader would open and map that at each
//! exec, and its constructor asks the processor what it can do, which a virtual machine answers
//! slowly: together a tenth of the exec of a sealed program. A linker script of the same name,
//! where the linker looks first, asks for the archive that comes with the same compiler.
//!
//! That unwinder is for our own panics only. The program's, which has to know the trampolines in
//! libc, is told of them when it is there (`heliostat_interpose::before_thread`).

use std::path::Path;
use std::process::Command;
use std::{env, fs};

const ARCHIVE: &str = "libgcc_eh.a";

fn main() {
    println!("cargo:rerun-if-env-changed=PATH");
    if !has_archive() {
        return;
    }
    let folder = env::var("OUT_DIR").expect("cargo names a folder for what is generated");
    fs::write(Path::new(&folder).join("libgcc_s.so"), "INPUT(-lgcc_eh)\n")
        .expect("that folder can be written");
    println!("cargo:rustc-link-search=native={folder}");
}

/// Whether the compiler that links has the archive: it answers with its path, else with the name.
fn has_archive() -> bool {
    let asked = Command::new("cc").arg(format!("-print-file-name={ARCHIVE}")).output();
    asked.is_ok_and(|answer| String::from_utf8_lossy(&answer.stdout).trim() != ARCHIVE)
}
