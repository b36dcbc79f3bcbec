//! What the kernel knows by number: names that it has looked up, until it forgets them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use heliostat_names::{File, Found, NamePath};

/// The number of the root.
pub(crate) const ROOT: u64 = 1;

/// A name that the kernel knows.
#[derive(Clone)]
pub(crate) struct Node {
    /// Under which it was looked up last.
    pub(crate) path: NamePath,
    /// What it was then; none for a folder.
    pub(crate) file: Option<Arc<dyn File>>,
}

/// Names by number. Numbers are never used again.
pub(crate) struct Nodes(Mutex<State>);

struct State {
    nodes: HashMap<u64, Known>,
    numbers: HashMap<String, u64>,
    next: u64,
}

struct Known {
    node: Node,
    key: String,
    /// How often the kernel was told of it.
    told: u64,
}

impl Nodes {
    /// The root alone, which is never forgotten.
    pub(crate) fn new() -> Self {
        let root = Node { path: NamePath::root(), file: None };
        let nodes = HashMap::from([(ROOT, Known { node: root, key: String::new(), told: 1 })]);
        Self(Mutex::new(State { nodes, numbers: HashMap::new(), next: ROOT + 1 }))
    }

    /// Tells the kernel of a name; the number by which it knows that. The same file has the same number,
    /// under whatever name it is found.
    pub(crate) fn tell(&self, path: NamePath, found: Found) -> u64 {
        let (key, file) = match found {
            Found::Folder => (format!("folder {path}"), None),
            Found::File(file) => (file.facts().key, Some(file)),
        };
        let mut state = self.lock();
        let next = state.next;
        let number = *state.numbers.entry(key.clone()).or_insert(next);
        state.next += u64::from(number == next);
        let node = Node { path, file };
        match state.nodes.get_mut(&number) {
            Some(known) => (known.node, known.told) = (node, known.told + 1),
            None => drop(state.nodes.insert(number, Known { node, key, told: 1 })),
        }
        number
    }

    /// The name of a number.
    pub(crate) fn node(&self, number: u64) -> Option<Node> {
        self.lock().nodes.get(&number).map(|known| known.node.clone())
    }

    /// The kernel has forgotten that it was told so often.
    pub(crate) fn forget(&self, number: u64, times: u64) {
        let mut state = self.lock();
        let Some(known) = state.nodes.get_mut(&number).filter(|_| number != ROOT) else { return };
        known.told = known.told.saturating_sub(times);
        if known.told == 0 {
            let known = state.nodes.remove(&number);
            known.and_then(|known| state.numbers.remove(&known.key));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stays_until_it_is_forgotten_as_often_as_it_was_told() {
        let nodes = Nodes::new();
        let path = || NamePath::parse("/memory").unwrap();
        let number = nodes.tell(path(), Found::Folder);
        assert_eq!(nodes.tell(path(), Found::Folder), number);
        nodes.forget(number, 1);
        assert_eq!(nodes.node(number).unwrap().path, path());
        nodes.forget(number, 1);
        assert!(nodes.node(number).is_none());
        assert_ne!(nodes.tell(path(), Found::Folder), number);
        nodes.forget(ROOT, 9);
        assert!(nodes.node(ROOT).is_some());
    }
}
