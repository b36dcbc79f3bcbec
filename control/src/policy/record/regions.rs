//! Snapshot regions that a program asked for: names, and many names of one folder as the folder.

use std::collections::BTreeMap;

use heliostat_abi::limits::REGION_SCOPES_MAX;
use heliostat_abi::snapshot::region_scope::{RegionNames, RegionScope};

use super::Times;

/// So many names that differ behind their last slash are all that begin so.
const FOLD_FROM: usize = 8;

/// What was asked for, as many names as one policy may hold eight times over.
#[derive(Clone, Debug, Default)]
pub(super) struct Regions(BTreeMap<RegionScope, Times>);

impl Regions {
    /// Takes a name down; false when there is no room for one more.
    pub fn note(&mut self, scope: &RegionScope, granted: bool) -> bool {
        let is_full = self.0.len() >= REGION_SCOPES_MAX * FOLD_FROM;
        if is_full && !self.0.contains_key(scope) {
            return false;
        }
        self.0.entry(scope.clone()).or_default().count(granted);
        true
    }

    /// Everything that was asked for, by name.
    pub fn each(&self) -> impl Iterator<Item = (&RegionScope, &Times)> {
        self.0.iter()
    }

    /// What a policy would have to grant, and whether it is all: a policy holds no more.
    pub fn folded(&self) -> (BTreeMap<RegionScope, Times>, bool) {
        let mut folders: BTreeMap<RegionScope, usize> = BTreeMap::new();
        for folder in self.0.keys().filter_map(folder_of) {
            *folders.entry(folder).or_default() += 1;
        }
        let mut folded: BTreeMap<RegionScope, Times> = BTreeMap::new();
        for (scope, times) in &self.0 {
            let folder = folder_of(scope)
                .filter(|it| folders.get(it).is_some_and(|names| *names >= FOLD_FROM));
            folded.entry(folder.unwrap_or_else(|| scope.clone())).or_default().add(*times);
        }
        let is_all = folded.len() <= REGION_SCOPES_MAX;
        (folded.into_iter().take(REGION_SCOPES_MAX).collect(), is_all)
    }
}

/// All names in the folder of one; none for a name without a slash, whose folder is everything.
fn folder_of(scope: &RegionScope) -> Option<RegionScope> {
    let RegionNames::One(name) = &scope.names else { return None };
    let end = name.as_str().rfind('/')?;
    let beginning = name.as_str().get(..=end)?.to_owned();
    Some(RegionScope { names: RegionNames::Beginning(beginning), ..scope.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(names: impl IntoIterator<Item = String>) -> Regions {
        let mut regions = Regions::default();
        for name in names {
            regions.note(&RegionScope::parse(&name).unwrap(), true);
        }
        regions
    }

    fn texts(regions: &Regions) -> Vec<String> {
        regions.folded().0.keys().map(ToString::to_string).collect()
    }

    #[test]
    fn many_names_of_a_folder_are_the_folder_and_of_none_stay_names() {
        let few = (0..7).map(|n| format!("few/{n}:publish"));
        let many = (0..8).map(|n| format!("many/{n}:publish"));
        let bare = (0..9).map(|n| format!("bare{n}:attach"));
        let found = texts(&noted(few.chain(many).chain(bare)));
        assert_eq!(found.len(), 7 + 1 + 9);
        assert!(found.contains(&"many/*:publish".to_owned()), "{found:?}");
    }

    #[test]
    fn a_right_and_a_user_are_folded_by_themselves() {
        let read = (0..7).map(|n| format!("a/{n}:attach"));
        let of_other = (0..7).map(|n| format!("a/{n}:attach:7"));
        assert_eq!(texts(&noted(read.chain(of_other))).len(), 14);
    }

    #[test]
    fn there_is_no_room_without_end() {
        let regions = noted((0..2000).map(|n| format!("r{n}:attach")));
        assert_eq!(regions.each().count(), REGION_SCOPES_MAX * FOLD_FROM);
        let (folded, is_all) = regions.folded();
        assert_eq!((folded.len(), is_all), (REGION_SCOPES_MAX, false));
    }
}
