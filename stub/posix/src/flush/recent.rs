//! What is known of the few files that were flushed last.

/// Files that are known; of more the one that was asked for longest ago is forgotten.
pub const FILES_MAX: usize = 16;

/// Something of each file, by device and number.
pub struct Recent<T> {
    list: [Place<T>; FILES_MAX],
    clock: u64,
    new: T,
}

#[derive(Clone, Copy)]
struct Place<T> {
    identity: (u64, u64),
    used_at: u64,
    what: T,
}

impl<T: Copy> Recent<T> {
    /// Nothing; of a file that is not known it is `new`.
    pub const fn new(new: T) -> Self {
        let none = Place { identity: (0, 0), used_at: 0, what: new };
        Self { list: [none; FILES_MAX], clock: 0, new }
    }

    /// What is known of one, if anything is.
    pub fn known(&mut self, identity: (u64, u64)) -> Option<&mut T> {
        let place = self.list.iter_mut().find(|place| place.identity == identity)?;
        self.clock += 1;
        place.used_at = self.clock;
        Some(&mut place.what)
    }

    /// What is known of one.
    pub fn of(&mut self, identity: (u64, u64)) -> &mut T {
        let known = self.list.iter().position(|place| place.identity == identity);
        let oldest = || (0..FILES_MAX).min_by_key(|at| self.list[*at].used_at).unwrap_or(0);
        let place = &mut self.list[known.unwrap_or_else(oldest)];
        if known.is_none() {
            (place.identity, place.what) = (identity, self.new);
        }
        self.clock += 1;
        place.used_at = self.clock;
        &mut place.what
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_that_was_asked_for_longest_ago_is_forgotten() {
        let mut recent = Recent::new(0);
        *recent.of((9, 9)) = 5;
        (1..FILES_MAX as u64).for_each(|number| *recent.of((1, number)) = 7);
        assert_eq!(*recent.of((9, 9)), 5);
        *recent.of((2, 2)) = 8;
        assert_eq!((*recent.of((9, 9)), *recent.of((1, 2)), *recent.of((1, 1))), (5, 7, 0));
    }
}
