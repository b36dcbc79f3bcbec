//! Operations in line at a socket.

use heliostat_abi::name::ObjectId;

/// From this length on a line is looked through for operations that have ended meanwhile.
const LONG: usize = 16;

/// Operations of the socket's session that get another turn when something happens.
#[derive(Default)]
pub(crate) struct Line(Vec<ObjectId>);

impl Line {
    /// Puts an operation in line. One that ends elsewhere leaves its place when the line is long:
    /// `lives` says which have not.
    pub fn push(&mut self, operation: ObjectId, lives: impl Fn(ObjectId) -> bool) {
        if self.0.len() >= LONG {
            self.0.retain(|other| lives(*other));
        }
        if !self.0.contains(&operation) {
            self.0.push(operation);
        }
    }

    /// All of them, in the order in which they came; the line is empty then.
    pub fn take(&mut self) -> Vec<ObjectId> {
        std::mem::take(&mut self.0)
    }

    /// The first that lives.
    pub fn pop(&mut self, lives: impl Fn(ObjectId) -> bool) -> Option<ObjectId> {
        let at = self.0.iter().position(|operation| lives(*operation))?;
        self.0.drain(..=at).next_back()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(index: u32) -> ObjectId {
        ObjectId { index, generation: 1 }
    }

    #[test]
    fn a_line_keeps_its_order_and_drops_who_has_ended() {
        let mut line = Line::default();
        (0..3).for_each(|index| line.push(id(index), |_| true));
        assert_eq!(line.pop(|operation| operation != id(0)), Some(id(1)));
        assert_eq!(line.take(), [id(2)]);
        assert_eq!(line.pop(|_| true), None);
    }

    #[test]
    fn a_line_does_not_grow_by_those_that_have_ended() {
        let mut line = Line::default();
        (0..1000).for_each(|index| line.push(id(index), |operation| operation.index + 4 > index));
        assert!(line.take().len() <= LONG + 1);
    }
}
