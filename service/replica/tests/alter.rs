//! Who may use a region is altered by its primary alone, in its record, one alteration after the other.

use heliostat_service_replica::{
    Alter, Effect, Fault, Identity, Member, Outcome, Placement, Record, Replica, APPOINTED_MAX,
};

const ME: Member = Member { node: 1, life: 10 };

fn placement() -> Placement {
    Placement {
        identity: Identity { maker: ME, number: 1 },
        owner: 7,
        others: 0,
        appointed: Vec::new(),
        bytes: 64,
        wanted: 1,
        epoch: 1,
        primary: ME,
        backups: Vec::new(),
    }
}

/// The primary of a region without backups, which is made.
fn made() -> Replica {
    let mut effects = Vec::new();
    let mut replica = Replica::make(placement(), 16, 1, &mut effects);
    decide(&mut replica, &mut effects, 1);
    assert!(effects.contains(&Effect::Made(1, Ok(()))), "{effects:?}");
    replica
}

/// The registry takes what was proposed; the record.
fn decide(replica: &mut Replica, effects: &mut Vec<Effect>, revision: u64) -> Placement {
    let proposed = effects.iter().rev().find_map(|effect| match effect {
        Effect::Propose { attempt, placement: Some(placement), .. } => {
            Some((*attempt, placement.clone()))
        }
        _ => None,
    });
    let (attempt, placement) = proposed.expect("a proposal");
    effects.clear();
    replica.proposed(attempt, Outcome::Accepted(revision), effects);
    *placement
}

fn told(effects: &[Effect]) -> Vec<(u64, Result<(), Fault>)> {
    let each = effects.iter().filter_map(|effect| match effect {
        Effect::Altered(token, result) => Some((*token, *result)),
        _ => None,
    });
    each.collect()
}

#[test]
fn each_alteration_is_told_when_its_record_stands_and_not_before() {
    let (mut replica, mut effects) = (made(), Vec::new());
    replica.alter(5, Alter::Appoint(9, 3), &mut effects);
    replica.alter(6, Alter::Others(1), &mut effects);
    assert_eq!(told(&effects), []);
    let first = decide(&mut replica, &mut effects, 2);
    assert_eq!((first.epoch, first.appointed, first.others), (2, vec![(9, 3)], 0));
    assert_eq!(told(&effects), [(5, Ok(()))]);
    let second = decide(&mut replica, &mut effects, 3);
    assert_eq!((second.epoch, second.appointed, second.others), (3, vec![(9, 3)], 1));
    assert_eq!(told(&effects), [(6, Ok(()))]);
    let rights = [7, 9, 8].map(|user| replica.placement().rights_of(user));
    assert_eq!(rights, [u32::MAX, 3, 1]);
    // What holds already takes no record; what is taken back does.
    effects.clear();
    replica.alter(7, Alter::Appoint(9, 3), &mut effects);
    assert_eq!((told(&effects), effects.len()), (vec![(7, Ok(()))], 1));
    replica.alter(8, Alter::Appoint(9, 0), &mut effects);
    assert_eq!(decide(&mut replica, &mut effects, 4).appointed, []);
}

#[test]
fn one_user_more_than_a_record_has_room_for_is_refused() {
    let (mut replica, mut effects) = (made(), Vec::new());
    for user in 0..APPOINTED_MAX as u32 {
        replica.alter(u64::from(user), Alter::Appoint(100 + user, 1), &mut effects);
        decide(&mut replica, &mut effects, 2 + u64::from(user));
    }
    effects.clear();
    replica.alter(99, Alter::Appoint(500, 1), &mut effects);
    assert_eq!(told(&effects), [(99, Err(Fault::Full(APPOINTED_MAX as u64)))]);
    // One that is there is given something else.
    replica.alter(98, Alter::Appoint(100, 3), &mut effects);
    effects.retain(|effect| !matches!(effect, Effect::Altered(..)));
    decide(&mut replica, &mut effects, 50);
    assert_eq!(told(&effects), [(98, Ok(()))]);
}

#[test]
fn a_primary_that_is_none_any_more_says_that_it_does_not_know() {
    let (mut replica, mut effects) = (made(), Vec::new());
    replica.alter(5, Alter::Others(1), &mut effects);
    let attempt = effects.iter().find_map(|effect| match effect {
        Effect::Propose { attempt, .. } => Some(*attempt),
        _ => None,
    });
    effects.clear();
    replica.proposed(attempt.unwrap(), Outcome::Conflict, &mut effects);
    let look = effects.iter().find_map(|effect| match effect {
        Effect::Look(look) => Some(*look),
        _ => None,
    });
    let other = Member { node: 2, life: 20 };
    let its = Placement { primary: other, epoch: 2, ..placement() };
    effects.clear();
    let record = Record { revision: 2, placement: Some(its) };
    replica.looked(look.unwrap(), record, &mut effects);
    assert_eq!(told(&effects), [(5, Err(Fault::NotPrimary))]);
    effects.clear();
    replica.alter(6, Alter::Others(1), &mut effects);
    assert_eq!(told(&effects), [(6, Err(Fault::NotPrimary))]);
}

#[test]
fn a_proposal_of_which_nobody_knew_and_that_stands_is_told_as_done() {
    let (mut replica, mut effects) = (made(), Vec::new());
    replica.alter(5, Alter::Others(1), &mut effects);
    let (attempt, placement) = effects
        .iter()
        .find_map(|effect| match effect {
            Effect::Propose { attempt, placement, .. } => Some((*attempt, placement.clone())),
            _ => None,
        })
        .unwrap();
    replica.proposed(attempt, Outcome::Unknown, &mut effects);
    assert_eq!(told(&effects), []);
    effects.clear();
    replica.tick((1, 1_000_000), |_| true, &mut effects);
    let again = effects.iter().find_map(|effect| match effect {
        Effect::Propose { attempt, .. } => Some(*attempt),
        _ => None,
    });
    effects.clear();
    replica.proposed(again.unwrap(), Outcome::Conflict, &mut effects);
    let look = effects.iter().find_map(|effect| match effect {
        Effect::Look(look) => Some(*look),
        _ => None,
    });
    effects.clear();
    let record = Record { revision: 2, placement: placement.map(|it| *it) };
    replica.looked(look.unwrap(), record, &mut effects);
    assert_eq!(told(&effects), [(5, Ok(()))]);
}

#[test]
fn where_no_record_has_room_a_region_is_not_made_and_its_maker_is_told() {
    let mut effects = Vec::new();
    let mut replica = Replica::make(placement(), 16, 1, &mut effects);
    let attempt = effects.iter().find_map(|effect| match effect {
        Effect::Propose { attempt, .. } => Some(*attempt),
        _ => None,
    });
    effects.clear();
    replica.proposed(attempt.unwrap(), Outcome::Full(4096), &mut effects);
    assert!(effects.contains(&Effect::Made(1, Err(Fault::Full(4096)))), "{effects:?}");
    assert!(replica.is_ended());
}
