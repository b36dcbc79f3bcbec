//! Users that a program of root's may become, as its policy names them.
//!
//! Such a program keeps the right to change its ids, and none besides; each change is asked about, and
//! only to ids of the named users. What it reaches then is what is granted and what that user may reach
//! (`behalf`).

use std::collections::BTreeSet;

/// Source of users and groups.
const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";

/// The ids of the users that were named.
#[derive(Clone, Debug, Default)]
pub struct Identities {
    users: BTreeSet<u32>,
    groups: BTreeSet<u32>,
    /// Any, to see which are needed.
    any: bool,
}

impl Identities {
    /// Those of these users.
    ///
    /// # Errors
    /// A name that nobody has.
    pub fn named(names: &[String]) -> Result<Self, String> {
        let (users, groups) = (read(USERS), read(GROUPS));
        let mut all = Self::default();
        for name in names {
            let (user, group) =
                find(&users, name).ok_or_else(|| format!("there is no user {name}"))?;
            all.users.insert(user);
            all.groups.insert(group);
            all.groups.extend(groups_of(&groups, name));
        }
        Ok(all)
    }

    /// All that there are.
    pub fn any() -> Self {
        Self { any: true, ..Self::default() }
    }

    /// The numbers of these users; `None` for any.
    pub fn numbers(&self) -> Option<Vec<u32>> {
        (!self.any).then(|| self.users.iter().copied().collect())
    }

    /// Whether a user's id may be taken; -1 leaves it as it is.
    pub fn has_user(&self, id: u32) -> bool {
        self.any || matches!(id, 0 | u32::MAX) || self.users.contains(&id)
    }

    /// Whether a group's id may be taken.
    pub fn has_group(&self, id: u32) -> bool {
        self.any || matches!(id, 0 | u32::MAX) || self.groups.contains(&id)
    }
}

/// The name of a user by its id.
pub fn name_of(id: u32) -> Option<String> {
    let users = read(USERS);
    let found = users.lines().find(|line| field(line, 2) == Some(id))?;
    found.split(':').next().map(str::to_owned)
}

fn read(path: &str) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}

fn field(line: &str, at: usize) -> Option<u32> {
    line.split(':').nth(at)?.parse().ok()
}

/// User and group of a name, by passwd(5).
fn find(users: &str, name: &str) -> Option<(u32, u32)> {
    let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
    field(line, 2).zip(field(line, 3))
}

/// Groups that have a member of this name, by group(5).
fn groups_of<'a>(groups: &'a str, name: &'a str) -> impl Iterator<Item = u32> + 'a {
    let has = move |line: &&str| {
        line.rsplit(':').next().is_some_and(|members| members.split(',').any(|one| one == name))
    };
    groups.lines().filter(has).filter_map(|line| field(line, 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_users_ids_are_those_of_both_files() {
        let users = "root:x:0:0::/root:/bin/sh\nweb:x:33:34::/:/bin/false\n";
        let groups = "web:x:34:\nlogs:x:40:other,web\nweb2:x:41:webb\n";
        assert_eq!(find(users, "web"), Some((33, 34)));
        assert_eq!(find(users, "we"), None);
        assert_eq!(groups_of(groups, "web").collect::<Vec<_>>(), [40]);
    }

    #[test]
    fn only_named_ids_and_roots_own_are_taken() {
        let own = Identities::named(&["root".to_owned()]).expect("root is there");
        assert!(own.has_user(0) && own.has_user(u32::MAX) && own.has_group(0));
        assert!(!own.has_user(33) && !own.has_group(33));
        assert!(Identities::any().has_user(33));
        let unknown = Identities::named(&["nobody-has-this".to_owned()]).expect_err("no such user");
        assert_eq!(unknown, "there is no user nobody-has-this");
    }
}
