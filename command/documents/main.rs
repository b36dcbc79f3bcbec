//! heliostat-documents: writes the man pages and the completions of the command line into a folder.
//!
//!     heliostat-documents FOLDER    FOLDER/man/*.1, FOLDER/completions/heliostat.{bash,fish}, _heliostat
//!
//! A program of its own, behind a feature: what is needed once when a package is made would be a
//! tenth of the command line.

// The fields are read by the program that these types belong to.
#[allow(dead_code)]
#[path = "../src/args/mod.rs"]
mod args;

use std::io::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use clap::CommandFactory;
use clap_complete::Shell;

fn main() -> ExitCode {
    let Some(folder) = env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: heliostat-documents FOLDER");
        return ExitCode::from(2);
    };
    match write_man_pages(&folder.join("man"))
        .and_then(|()| write_completions(&folder.join("completions")))
    {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("heliostat-documents: {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}

/// Writes a page for the program and one for each command that is shown.
fn write_man_pages(folder: &Path) -> Result<(), Error> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(args::Arguments::command(), folder)
}

/// Writes a file for each shell, under the name by which the shell looks for it.
fn write_completions(folder: &Path) -> Result<(), Error> {
    fs::create_dir_all(folder)?;
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        clap_complete::generate_to(shell, &mut args::Arguments::command(), "heliostat", folder)?;
    }
    Ok(())
}
