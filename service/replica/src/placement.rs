//! Where a region lies: the record that all nodes share.

/// One life of a node: a region's bytes end with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Member {
    /// The node's number.
    pub node: u64,
    /// Its incarnation: larger after each start.
    pub life: u64,
}

/// A region, whatever its name is and was before: who made it, and which of those it made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Identity {
    /// Where it was made.
    pub maker: Member,
    /// Which.
    pub number: u64,
}

/// A request, so that it is done once although it is asked again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RequestId {
    /// Who asks.
    pub asker: Member,
    /// Which.
    pub number: u64,
}

/// The registry's number of a record's state; 0 is that there is none.
pub type Revision = u64;

/// What becomes of who may use a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alter {
    /// Other users may do this, as bits of rights.
    Others(u32),
    /// A user may do this; nothing takes it back.
    Appoint(u32, u32),
}

/// Where a region lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Which region.
    pub identity: Identity,
    /// Whose it is.
    pub owner: u32,
    /// What other users may do, as bits of rights.
    pub others: u32,
    /// Who was appointed to what besides: users and bits of rights, no user twice.
    pub appointed: Vec<(u32, u32)>,
    /// Its length.
    pub bytes: u64,
    /// How many replicas there are to be, the primary among them.
    pub wanted: u32,
    /// Larger with each change of the members.
    pub epoch: u64,
    /// Who orders operations.
    pub primary: Member,
    /// Who has them before they are answered.
    pub backups: Vec<Member>,
}

impl Placement {
    /// What a user may do, as bits of rights.
    pub fn rights_of(&self, user: u32) -> u32 {
        let given = self.appointed.iter().find(|it| it.0 == user).map_or(0, |it| it.1);
        if user == self.owner {
            u32::MAX
        } else {
            self.others | given
        }
    }

    /// Whether that holds already.
    pub(crate) fn has(&self, alter: Alter) -> bool {
        match alter {
            Alter::Others(rights) => self.others == rights,
            Alter::Appoint(user, 0) => self.appointed.iter().all(|it| it.0 != user),
            Alter::Appoint(user, rights) => self.appointed.contains(&(user, rights)),
        }
    }

    /// The next one, in which that holds; none where as many users are appointed as may be.
    pub(crate) fn altered(&self, alter: Alter) -> Option<Placement> {
        let mut next = Placement { epoch: self.epoch + 1, ..self.clone() };
        match alter {
            Alter::Others(rights) => next.others = rights,
            Alter::Appoint(user, rights) => {
                next.appointed.retain(|it| it.0 != user);
                if rights != 0 {
                    next.appointed.push((user, rights));
                }
            }
        }
        (next.appointed.len() <= crate::APPOINTED_MAX).then_some(next)
    }

    /// The next one, without some of the members.
    pub(crate) fn without(&self, gone: impl Fn(Member) -> bool) -> Placement {
        let backups = self.backups.iter().copied().filter(|it| !gone(*it)).collect();
        Placement { epoch: self.epoch + 1, backups, ..self.clone() }
    }

    /// The next one, with one more backup.
    pub(crate) fn with(&self, backup: Member) -> Placement {
        let mut next = Placement { epoch: self.epoch + 1, ..self.clone() };
        next.backups.push(backup);
        next
    }

    /// The next one, in which a backup is the primary, and the primary is gone.
    pub(crate) fn led_by(&self, backup: Member) -> Placement {
        Placement { primary: backup, ..self.without(|it| it == backup) }
    }
}
