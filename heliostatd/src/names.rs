//! Names of users and groups in a configuration, from the machine's own files.
//!
//! Read directly instead of through the name service: a directory server that does not answer
//! must not keep the control plane from starting. Users that only such a server knows are
//! written as numbers.

use std::collections::HashMap;

use heliostat_control::config::Names;

/// The users and groups of this machine.
pub struct MachineNames {
    users: HashMap<String, u32>,
    groups: HashMap<String, u32>,
}

impl MachineNames {
    /// Reads /etc/passwd and /etc/group; a missing file is an empty one.
    pub fn read() -> Self {
        let file = |path| std::fs::read_to_string(path).unwrap_or_default();
        Self { users: numbers(&file("/etc/passwd")), groups: numbers(&file("/etc/group")) }
    }
}

impl Names for MachineNames {
    fn user(&self, name: &str) -> Option<u32> {
        self.users.get(name).copied()
    }

    fn group(&self, name: &str) -> Option<u32> {
        self.groups.get(name).copied()
    }
}

/// First and third field of each line: both files are alike in that (passwd(5), group(5)).
fn numbers(text: &str) -> HashMap<String, u32> {
    let line = |line: &str| {
        let mut fields = line.split(':');
        let name = fields.next()?.to_owned();
        Some((name, fields.nth(1)?.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_the_first_and_third_field() {
        let found = numbers("root:x:0:0:root:/:/bin/sh\nbroken\nredis:x:101:\n");
        assert_eq!((found.get("root"), found.get("redis")), (Some(&0), Some(&101)));
        assert_eq!(found.len(), 2);
    }
}
