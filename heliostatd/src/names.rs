//! Names of users and groups in a configuration, and whose numbers are whose, from the machine's own
//! files.
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

/// Numbers of users that are given to other users for their containers (subuid(5)): whoever has some
/// is as many users as it likes, and takes no more for that than one.
#[derive(Default)]
pub struct Subordinates {
    /// First number, how many, and whose, in order of the first.
    ranges: Vec<(u32, u32, u32)>,
}

impl Subordinates {
    /// Reads /etc/subuid and /etc/passwd; a missing file is an empty one.
    pub fn read() -> Self {
        let file = |path| std::fs::read_to_string(path).unwrap_or_default();
        Self::of(&file("/etc/subuid"), &numbers(&file("/etc/passwd")))
    }

    fn of(text: &str, users: &HashMap<String, u32>) -> Self {
        let line = |line: &str| {
            let mut fields = line.trim().split(':');
            let owner = fields.next()?;
            let owner = users.get(owner).copied().or_else(|| owner.parse().ok())?;
            Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?, owner))
        };
        let mut ranges: Vec<_> = text.lines().filter_map(line).collect();
        ranges.sort_unstable();
        Self { ranges }
    }

    /// Who has a user's number; that user itself where nobody else has. What is root's is for
    /// containers that root starts, each of which may be somebody's of its own.
    pub fn owner_of(&self, uid: u32) -> u32 {
        let behind = self.ranges.partition_point(|(first, ..)| *first <= uid);
        let range = self.ranges[..behind].last();
        let owner = range.filter(|(first, count, _)| uid - first < *count).map(|range| range.2);
        owner.filter(|owner| *owner != 0).unwrap_or(uid)
    }
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

    #[test]
    fn subordinate_numbers_count_for_whom_they_are_given_to() {
        let users = HashMap::from([("root".to_owned(), 0), ("redis".to_owned(), 101)]);
        let text = "redis:100000:65536\nbroken\n1000:300000:2\nroot:400000:10\nnobody knows:1:2\n";
        let given = Subordinates::of(text, &users);
        let owners = [99_999, 100_000, 165_535, 165_536, 300_001, 300_002, 400_005];
        let wanted = [99_999, 101, 101, 165_536, 1000, 300_002, 400_005];
        assert_eq!(owners.map(|uid| given.owner_of(uid)), wanted);
    }
}
