//! Call offload: groups of system calls, and how a program asks for them.
//!
//! ```text
//! --offload                      files, metadata and sockets, where it is measured to pay
//! --offload=files,sockets        those
//! --offload=always:metadata      without measuring, for tests and experiments
//! ```

use std::fmt;

/// Environment variable that has the stub measure the stages of offloaded calls in this folder, print what
/// it has found, and end.
pub const STAGES_VARIABLE: &str = "HELIOSTAT_OFFLOAD_STAGES";

/// A group of calls, as GenerOS groups its servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(usize)]
pub enum Group {
    /// Bytes of files: read, write and their kin.
    Files = 0,
    /// Names, descriptors and what is known of files: open, close, stat and their kin.
    Metadata = 1,
    /// Sockets.
    Sockets = 2,
    /// Signals.
    Signals = 3,
    /// Pipes, queues, semaphores and shared memory between processes.
    Ipc = 4,
    /// Processes, threads and their rights.
    Process = 5,
}

impl Group {
    /// All groups, in order of number.
    pub const ALL: [Group; 6] =
        [Group::Files, Group::Metadata, Group::Sockets, Group::Signals, Group::Ipc, Group::Process];

    /// Its name, as it is asked for.
    pub const fn name(self) -> &'static str {
        match self {
            Group::Files => "files",
            Group::Metadata => "metadata",
            Group::Sockets => "sockets",
            Group::Signals => "signals",
            Group::Ipc => "ipc",
            Group::Process => "process",
        }
    }

    fn of_name(name: &str) -> Option<Group> {
        Group::ALL.into_iter().find(|group| group.name() == name)
    }
}

/// Which groups a program asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Request {
    groups: u8,
    always: bool,
}

/// What `--offload` means without a list.
pub const DEFAULT: &str = "files,metadata,sockets";
/// What is in front of a list that is not to be measured.
const ALWAYS: &str = "always";

/// A word that names no group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NoGroup(pub String);

impl fmt::Display for NoGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no group of calls; there are", self.0)?;
        Group::ALL.iter().try_for_each(|group| write!(f, " {}", group.name()))
    }
}

impl std::error::Error for NoGroup {}

impl Request {
    /// Reads a list of groups; an empty one means [`DEFAULT`].
    ///
    /// # Errors
    /// The first word that names no group.
    pub fn parse(text: &str) -> Result<Request, NoGroup> {
        let (always, list) = match text.strip_prefix(ALWAYS) {
            Some("") => (true, DEFAULT),
            Some(rest) if rest.starts_with(':') => (true, &rest[1..]),
            _ => (false, text),
        };
        let list = if list.is_empty() { DEFAULT } else { list };
        let mut request = Request { groups: 0, always };
        for name in list.split(',') {
            let group = Group::of_name(name).ok_or_else(|| NoGroup(name.to_owned()))?;
            request.groups |= 1 << group as usize;
        }
        Ok(request)
    }

    /// Whether a group is asked for.
    #[inline(always)]
    pub const fn has(self, group: Group) -> bool {
        self.groups & 1 << group as usize != 0
    }

    /// Whether any is.
    pub const fn is_any(self) -> bool {
        self.groups != 0
    }

    /// Whether nothing is measured: all calls of these groups go to kernel cores.
    pub const fn is_always(self) -> bool {
        self.always
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = Group::ALL.into_iter().filter(|group| self.has(*group));
        let names: Vec<&str> = asked.map(Group::name).collect();
        if self.always {
            write!(f, "{ALWAYS}:")?;
        }
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_and_written_as_it_was_asked_for() {
        let cases = [
            ("", "files,metadata,sockets"),
            ("sockets", "sockets"),
            ("metadata,files", "files,metadata"),
            ("always", "always:files,metadata,sockets"),
            ("always:ipc,process,signals", "always:signals,ipc,process"),
        ];
        for (text, shown) in cases {
            let request = Request::parse(text).expect("groups");
            assert_eq!(request.to_string(), shown, "{text}");
            assert_eq!(Request::parse(shown), Ok(request));
        }
    }

    #[test]
    fn a_word_that_names_no_group_is_told() {
        assert_eq!(Request::parse("files,disks"), Err(NoGroup("disks".to_owned())));
        assert_eq!(Request::parse("alwaysfiles"), Err(NoGroup("alwaysfiles".to_owned())));
        assert!(NoGroup("x".to_owned()).to_string().ends_with("sockets signals ipc process"));
    }

    #[test]
    fn nothing_is_asked_for_without_a_request() {
        let none = Request::default();
        assert!(!none.is_any() && Group::ALL.into_iter().all(|group| !none.has(group)));
    }
}
