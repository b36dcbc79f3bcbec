//! Who may use a region: altered by its primary, in its record, wherever that is asked.

use heliostat_abi::memory::Rights;
use heliostat_server_node::Outcome;
use heliostat_service_replica::{Alter, Fault, Identity};

use crate::engine::Engine;
use crate::input::{Alterer, Called};
use crate::message::{header, put_identity, Kind};
use crate::request::NotAltered;

/// How long a primary may take whose record is being changed.
const ALTER_NS: u64 = 8_000_000_000;
/// Stands for all other users.
const OTHERS: u32 = u32::MAX;

/// An alteration as a number.
fn put(alter: Alter) -> u64 {
    let (who, rights) = match alter {
        Alter::Others(rights) => (OTHERS, rights),
        Alter::Appoint(user, rights) => (user, rights),
    };
    u64::from(who) | u64::from(rights) << 32
}

/// A foreign one; none where there are no such rights.
pub(crate) fn take(number: u64) -> Option<Alter> {
    let (who, rights) = (number as u32, (number >> 32) as u32);
    Rights::from_bits(rights)?;
    Some(if who == OTHERS { Alter::Others(rights) } else { Alter::Appoint(who, rights) })
}

/// What it takes: naming and saying what others may is sharing, appointing is managing.
const fn wanted(alter: Alter) -> Rights {
    match alter {
        Alter::Others(_) => Rights::SHARE,
        Alter::Appoint(..) => Rights::MANAGE,
    }
}

impl Engine {
    pub(crate) fn alter(&mut self, identity: Identity, user: u32, alter: Alter, who: Alterer) {
        let token = self.next();
        let Some(region) = self.regions.get_mut(&identity).filter(|it| it.replica.is_primary())
        else {
            return self.alter_elsewhere(identity, user, alter, who);
        };
        let wanted = wanted(alter).bits();
        if region.replica.placement().rights_of(user) & wanted != wanted {
            return self.tell_alterer(who, Err(NotAltered::Denied));
        }
        self.altering.insert(token, who);
        self.with_replica(identity, |replica, effects| replica.alter(token, alter, effects));
    }

    fn alter_elsewhere(&mut self, identity: Identity, user: u32, alter: Alter, who: Alterer) {
        let found = self.clients.get(&identity).map(|it| it.client.placement().primary);
        match (found, &who) {
            (Some(primary), Alterer::Here(_)) if primary != self.starting.me => {
                let token = self.next();
                self.altering.insert(token, who);
                let header = header(Kind::Alter, &user.to_le_bytes());
                let message = (header, put_identity(identity, put(alter)), ALTER_NS);
                self.call(1, primary, message, Called::Alter(token));
            }
            _ => self.tell_alterer(who, Err(NotAltered::Unknown)),
        }
    }

    /// The primary's replica here says so.
    pub(crate) fn altered(&mut self, token: u64, result: Result<(), Fault>) {
        let Some(who) = self.altering.remove(&token) else { return };
        let result = result.map_err(|fault| match fault {
            Fault::Full(limit) => NotAltered::Full(limit),
            _ => NotAltered::Unknown,
        });
        self.tell_alterer(who, result);
    }

    /// The primary's node says so.
    pub(crate) fn altered_there(&mut self, token: u64, outcome: Outcome) {
        let Some(who) = self.altering.remove(&token) else { return };
        let answer = outcome.ok().map(|reply| reply.payload);
        self.tell_alterer(
            who,
            match answer.as_deref() {
                Some([0]) => Ok(()),
                Some([2]) => Err(NotAltered::Full(heliostat_service_replica::APPOINTED_MAX as u64)),
                Some([3]) => Err(NotAltered::Denied),
                _ => Err(NotAltered::Unknown),
            },
        );
    }

    fn tell_alterer(&self, who: Alterer, result: Result<(), NotAltered>) {
        match who {
            Alterer::Here(then) => then(result),
            Alterer::Node(ask) => {
                let number = match result {
                    Ok(()) => 0,
                    Err(NotAltered::Unknown) => 1,
                    Err(NotAltered::Full(_)) => 2,
                    Err(NotAltered::Denied) => 3,
                };
                self.replies.reply(ask, Vec::new(), vec![number]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alterations_are_read_back_to_the_same_and_rights_that_are_none_are_refused() {
        for alter in [Alter::Others(0), Alter::Others(3), Alter::Appoint(4242, 1)] {
            assert_eq!(take(put(alter)), Some(alter));
        }
        assert_eq!(take(put(Alter::Appoint(4242, u32::MAX))), None);
    }
}
