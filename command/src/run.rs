//! `heliostat run`: makes sure of a control plane, prepares the environment, becomes the program.
//!
//! Whatever Heliostat cannot do for a program, the program still runs: natively, with one line on
//! standard error that says why (`--require` makes it an error instead).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use heliostat_abi::listener::SHARE_VARIABLE;
use heliostat_abi::place::{
    DETECT_PREFIX, DIRECT_VARIABLE, DURABLE_LOG_VARIABLE, DURABLE_VARIABLE, EXAMINER_VARIABLE,
    IMAGE_VARIABLE, SEALED_VARIABLE, SOCKET_VARIABLE, VERBOSE_VARIABLE,
};
use heliostat_control::config::Durable;
use heliostat_control::policy::{Access, PathGrant};

use crate::args::RunArguments;
use crate::ensure::{self, EnsureError};
use crate::image::{self, Environment};
use crate::libc_image::image as image_of_libc;
use crate::place::surroundings;
use crate::program;
use crate::recover;
use crate::require;
use crate::say::say;
use crate::sites::cache_sites;
use crate::stub::find_stub;
use crate::{network, offload};
use crate::{sealed, sealing};

/// For a pattern: any file that is seen to be appended to and flushed.
const AUTO: &str = "auto";
/// Exit status when the command itself fails, as env(1) has it.
const OWN_FAILURE: u8 = 125;

/// Runs the program; returns only when that failed.
pub fn run(arguments: &RunArguments) -> ExitCode {
    let Some(name) = arguments.program.first() else {
        return ExitCode::from(OWN_FAILURE);
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let file = match program::find(name, &path) {
        Ok(file) => file,
        Err(error) => {
            say(format_args!("{}: {error}", name.to_string_lossy()));
            return ExitCode::from(error.status());
        }
    };
    let mut environment = Environment::inherited();
    if arguments.sealed {
        return run_sealed(environment, arguments, &file);
    }
    let program = name.to_string_lossy();
    let prepared = prepare(&mut environment, arguments, &file);
    if arguments.require {
        if let Err(why) = prepared.and_then(|()| require::check(arguments, &file, &mut environment))
        {
            return not_run(&program, &why);
        }
    } else if let Err(why) = prepared {
        say(format_args!("{program} runs natively: {why}"));
    }
    let error = image::become_program(&file, &arguments.program, &environment);
    say(format_args!("{}: {error}", name.to_string_lossy()));
    let not_found = error.kind() == std::io::ErrorKind::NotFound;
    ExitCode::from(if not_found { 127 } else { 126 })
}

fn not_run(program: &str, why: &str) -> ExitCode {
    say(format_args!("{program} is not run: {why}"));
    ExitCode::from(OWN_FAILURE)
}

/// Runs the program sealed. Without the stub everything works, more slowly.
fn run_sealed(mut environment: Environment, arguments: &RunArguments, file: &Path) -> ExitCode {
    if let Err(why) = heliostat_supervisor::check_untaken() {
        say(format_args!("the program is not run: {why}"));
        return ExitCode::from(OWN_FAILURE);
    }
    let trace = arguments.seal.trace_policy.as_deref().map(sealed::Trace::create).transpose();
    let (policy, trace) = match sealing::policy(&arguments.seal).and_then(|it| Ok((it, trace?))) {
        Ok(both) => both,
        Err(why) => {
            say(format_args!("{why}"));
            return ExitCode::from(OWN_FAILURE);
        }
    };
    let by_default = !arguments.seal.clear_env;
    let untold = sealing::limit_environment(&mut environment, &policy, by_default);
    if arguments.verbose && !untold.is_empty() {
        say(format_args!("not told, but for --env NAME: {}", untold.join(", ")));
    }
    if let Err(why) = prepare(&mut environment, arguments, file) {
        if arguments.require {
            return not_run(&file.to_string_lossy(), &why);
        }
        if arguments.verbose {
            say(format_args!("sealed without the stub: {why}"));
        }
    }
    environment.set(SEALED_VARIABLE, "1");
    let here = surroundings(&arguments.place);
    if let Err(why) = sealing::make_folder(&here) {
        say(format_args!("the program is not run: {why}"));
        return ExitCode::from(OWN_FAILURE);
    }
    if sealing::could_be_taken(&policy, &here) {
        // Programs that are not to be preloaded have none yet. Without a daemon nobody uses it.
        let _ = ensure::ensure(&here, arguments.config.as_deref());
    }
    let folder = sealing::private_folder(&here.socket_path());
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    // The stub reads the list of lists, and those of other libraries than libc, beside that of libc.
    let (list, stub) = (cache_sites().ok(), find_stub().ok());
    if let Some((stub, list)) = stub.as_deref().zip(list.as_deref()) {
        // The stub looks for lists in the folder of the image only, also where there is none: what it
        // asks for elsewhere would count as refused to the program.
        let none = || list.with_file_name("none.image");
        environment.set(IMAGE_VARIABLE, image_of_libc(stub, list).unwrap_or_else(none));
    }
    let sites = list.and_then(|list| Some(list.parent()?.to_owned()));
    let needed = [Some(file.clone()), stub, sites].into_iter().flatten();
    let besides = needed.chain(sealing::guarded(&policy, &here));
    let besides = besides.map(|path| PathGrant { path, access: Access::ReadOnly });
    let examiner = std::env::current_exe().ok();
    let looked = examiner.map(|path| PathGrant { path, access: Access::Stat });
    let besides = besides.chain(looked).collect();
    let arguments_of = &arguments.program;
    let program =
        sealed::Program { file: &file, arguments: arguments_of, environment: &environment };
    let control = std::path::absolute(here.socket_path()).ok();
    let identities = match sealing::identities(&policy, trace.is_some()) {
        Ok(identities) => identities,
        Err(why) => return not_run(&file.to_string_lossy(), &why),
    };
    let (tells, kept) = (arguments.verbose, arguments.seal.keep.clone());
    let seal =
        sealed::Seal { policy, besides, folder, control, trace, identities, untold, kept, tells };
    sealed::run(&program, seal)
}

/// Adds to the program's environment what brings it under Heliostat.
fn prepare(
    environment: &mut Environment,
    arguments: &RunArguments,
    file: &Path,
) -> Result<(), String> {
    let covered = program::judge(file);
    if let Err(why) = &covered {
        if why.must_not_preload() {
            return Err(why.to_string());
        }
    }
    let here = surroundings(&arguments.place);
    let socket = std::path::absolute(here.socket_path()).map_err(|error| error.to_string())?;
    let list = preload(environment.get("LD_PRELOAD"), &find_stub()?)?;
    let ensured = ensure::ensure(&here, arguments.config.as_deref());
    let no_control = |error| format!("there is no control plane: {error}");
    if let Err(error @ EnsureError::Unsafe(_)) = ensured {
        // Somebody else may serve that socket: the stub must not talk to it either.
        return Err(no_control(error));
    }
    // Even if there is no control plane: should it come up later, the stub will find it. And
    // what cannot be covered may start programs that can.
    environment.set("LD_PRELOAD", list);
    environment.set(SOCKET_VARIABLE, &socket);
    if let Ok(own) = std::env::current_exe() {
        environment.set(EXAMINER_VARIABLE, own);
    }
    if arguments.no_direct {
        environment.set(DIRECT_VARIABLE, "0");
    }
    set_durable(environment, arguments)?;
    if !arguments.share.is_empty() {
        environment.set(SHARE_VARIABLE, arguments.share.join(","));
    }
    offload::set(environment, arguments)?;
    if arguments.verbose {
        environment.set(VERBOSE_VARIABLE, "1");
    }
    let started = ensured.map_err(no_control)?;
    let kernel_cores = crate::cores::join(&here);
    offload::set_cores(environment, arguments, &kernel_cores);
    network::set(environment, arguments, &kernel_cores)?;
    // What else there is to say the stub says, once for the whole tree of programs.
    if started && arguments.verbose {
        say(format_args!("control plane started: {}", socket.display()));
    }
    cache_sites()?;
    covered.map_err(|why| why.to_string())
}

/// Which files are durable, and by which log: as this command was told, or else by the configuration.
fn set_durable(environment: &mut Environment, arguments: &RunArguments) -> Result<(), String> {
    let (mut files, mut log) = (arguments.durable.clone(), arguments.log.clone());
    if let Some(config) = arguments.config.as_deref().filter(|_| files.is_empty()) {
        let named = |error: String| format!("{}: {error}", config.display());
        let text = std::fs::read_to_string(config).map_err(|error| named(error.to_string()))?;
        let found = Durable::of_text(&text).map_err(|error| named(error.to_string()))?;
        (files, log) = (found.files, log.or(found.log));
    }
    if !files.is_empty() {
        let all = || format!("{DETECT_PREFIX}*");
        files.iter_mut().filter(|it| *it == AUTO).for_each(|it| *it = all());
        environment.set(DURABLE_VARIABLE, files.join("\n"));
    }
    // The variable may be told from outside, or by a run around this one.
    let told = environment.get(DURABLE_LOG_VARIABLE).map(PathBuf::from);
    let Some(log) = log.or(told.filter(|path| path.is_absolute())) else { return Ok(()) };
    if arguments.sealed {
        environment.remove(DURABLE_LOG_VARIABLE);
        say(format_args!(
            "durable files are flushed themselves: what a sealed program writes into a log would be put \
             into files with all rights of this user"
        ));
        return Ok(());
    }
    match recover::prepare(&log, &arguments.place, arguments.verbose) {
        Ok(path) => environment.set(DURABLE_LOG_VARIABLE, path),
        Err(why) if arguments.require => return Err(why),
        Err(why) => say(format_args!("durable files are flushed themselves: {why}")),
    }
    Ok(())
}

/// Finds the system calls of libraries other than libc, for the stub. Not for ever: what takes longer
/// is a file made to do so.
pub fn examine(files: &[PathBuf]) -> ExitCode {
    use rustix::process::{setrlimit, Resource, Rlimit};
    const SECONDS_MAX: Option<u64> = Some(30);
    let _ = setrlimit(Resource::Cpu, Rlimit { current: SECONDS_MAX, maximum: SECONDS_MAX });
    let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    match heliostat_interpose::examine(&files) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("{error}"));
            ExitCode::FAILURE
        }
    }
}

/// The preload list with the stub at its end, once.
fn preload(list: Option<&OsStr>, stub: &Path) -> Result<OsString, String> {
    if stub.as_os_str().as_bytes().iter().any(|byte| b" :".contains(byte)) {
        return Err(format!(
            "the loader cannot take a path with blank or colon: {}",
            stub.display()
        ));
    }
    Ok(appended(list.map(OsStr::to_owned), stub.as_os_str()))
}

fn appended(list: Option<OsString>, stub: &OsStr) -> OsString {
    let Some(mut list) = list.filter(|list| !list.is_empty()) else { return stub.to_owned() };
    let is_there = |part: &[u8]| part == stub.as_bytes();
    if list.as_bytes().split(|byte| b" :".contains(byte)).any(is_there) {
        return list;
    }
    list.push(":");
    list.push(stub);
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stub_comes_after_what_is_preloaded_already_and_only_once() {
        let stub = OsStr::new("/x/s.so");
        let after = |list: &str| appended(Some(OsString::from(list)), stub);
        assert_eq!(appended(None, stub), "/x/s.so");
        assert_eq!(after(""), "/x/s.so");
        assert_eq!(after("/a.so"), "/a.so:/x/s.so");
        assert_eq!(after("/a.so /x/s.so"), "/a.so /x/s.so");
    }
}
