//! Processes and threads, as /proc tells them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use heliostat_abi::cores::CpuMask;
use heliostat_service_cores::Thread;

use crate::root::Root;

/// A process.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Who made it.
    pub parent: u32,
    /// When it began, in the kernel's ticks.
    pub start: u64,
}

/// By which variables a program under this control plane is known: its children have them as well.
#[derive(Clone, Debug)]
pub struct Marker {
    /// The variable that names the control plane.
    pub name: &'static str,
    /// Its values.
    pub values: Vec<OsString>,
    /// One that only programs under Heliostat have: a shell may have the other for what it starts.
    pub besides: &'static str,
}

/// What /proc tells.
pub struct Tasks<'a>(pub &'a Root);

impl Tasks<'_> {
    /// Every process that is seen.
    pub fn processes(&self) -> Vec<Process> {
        let pids = self.0.numbers_in("/proc");
        pids.into_iter().filter_map(|pid| self.process(pid)).collect()
    }

    /// A process, if it is there.
    pub fn process(&self, pid: u32) -> Option<Process> {
        let (parent, start) = self.stat(&format!("/proc/{pid}/stat"))?;
        Some(Process { pid, parent, start })
    }

    /// Threads of a process; those that end meanwhile are not among them.
    pub fn threads(&self, pid: u32) -> Vec<Thread> {
        let tids = self.0.numbers_in(&format!("/proc/{pid}/task"));
        let thread = |tid| self.thread_in(&format!("/proc/{pid}/task/{tid}"), tid);
        tids.into_iter().filter_map(thread).collect()
    }

    /// A thread by its id alone.
    pub fn thread(&self, tid: u32) -> Option<Thread> {
        self.thread_in(&format!("/proc/{tid}"), tid)
    }

    /// The process of a thread.
    pub fn process_of(&self, tid: u32) -> Option<u32> {
        self.status_line(&format!("/proc/{tid}"), "Tgid:")?.parse().ok()
    }

    /// The user that a process runs as.
    pub fn user(&self, pid: u32) -> Option<u32> {
        let line = self.status_line(&format!("/proc/{pid}"), "Uid:")?;
        line.split_whitespace().nth(1)?.parse().ok()
    }

    /// The names that a rule may mean a process by: what it calls itself, and its file's.
    pub fn names(&self, pid: u32) -> Vec<String> {
        let comm = self.0.text(&format!("/proc/{pid}/comm")).map(|name| name.trim().to_owned());
        let file = std::fs::read_link(self.0.path(&format!("/proc/{pid}/exe"))).ok();
        let file = file.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        comm.into_iter().chain(file).collect()
    }

    /// Whether a process was begun with these variables.
    pub fn was_told(&self, pid: u32, marker: &Marker) -> bool {
        let Some(bytes) = self.0.bytes(&format!("/proc/{pid}/environ")) else { return false };
        let value = |name: &str| {
            let mut all = bytes.split(|byte| *byte == 0);
            all.find_map(|each| each.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
        };
        let is_known = |value: &[u8]| marker.values.iter().any(|known| known.as_bytes() == value);
        value(marker.besides).is_some() && value(marker.name).is_some_and(is_known)
    }

    fn thread_in(&self, folder: &str, tid: u32) -> Option<Thread> {
        let (_, start) = self.stat(&format!("{folder}/stat"))?;
        let mask = CpuMask::parse(&self.status_line(folder, "Cpus_allowed_list:")?).ok()?;
        Some(Thread { tid, start, mask })
    }

    /// Parent and beginning. The name before them may have blanks and brackets; the last bracket ends it.
    fn stat(&self, path: &str) -> Option<(u32, u64)> {
        let text = self.0.text(path)?;
        let (_, rest) = text.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        Some((fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?))
    }

    fn status_line(&self, folder: &str, name: &str) -> Option<String> {
        let text = self.0.text(&format!("{folder}/status"))?;
        text.lines().find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_blanks_and_brackets_hides_nothing() {
        let tree = tempfile::tempdir().unwrap();
        let root = Root::below(tree.path());
        let folder = root.path("/proc/7/task/8");
        std::fs::create_dir_all(&folder).unwrap();
        let stat = format!("8 (a) b (c) S 3 {} 99 1\n", "0 ".repeat(17));
        let status = "Name:\ta\nTgid:\t7\nUid:\t5\t6\t6\t6\nCpus_allowed_list:\t0-2,5\n";
        for folder in [root.path("/proc/7"), folder] {
            std::fs::write(folder.join("stat"), &stat).unwrap();
            std::fs::write(folder.join("status"), status).unwrap();
        }
        std::fs::write(root.path("/proc/7/environ"), "A=1\0HELIO=/x/s\0").unwrap();
        let tasks = Tasks(&root);
        assert_eq!(tasks.processes(), [Process { pid: 7, parent: 3, start: 99 }]);
        let mask = CpuMask::parse("0-2,5").unwrap();
        assert_eq!(tasks.threads(7), [Thread { tid: 8, start: 99, mask }]);
        assert_eq!((tasks.user(7), tasks.process_of(7)), (Some(6), Some(7)));
        let told = |name, value: &str, besides| {
            tasks.was_told(7, &Marker { name, values: vec![value.into()], besides })
        };
        assert!(told("HELIO", "/x/s", "A"));
        assert!(!told("HELIO", "/x", "A") && !told("HELI", "O=/x/s", "A"));
        assert!(!told("HELIO", "/x/s", "B"), "a shell's, not a program's");
    }

    #[test]
    fn this_process_finds_itself() {
        let (root, pid) = (Root::default(), std::process::id());
        let tasks = Tasks(&root);
        assert!(tasks.processes().iter().any(|process| process.pid == pid));
        assert!(tasks.threads(pid).iter().any(|thread| thread.tid == pid));
        assert!(!tasks.names(pid).is_empty());
    }
}
