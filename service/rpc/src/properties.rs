//! Whatever is asked in whatever order: what the loop was told is what is so.

use std::collections::{BTreeMap, BTreeSet};

use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::{FunctionName, Publication};
use heliostat_service_grant::{Holder, Shares};
use proptest::prelude::*;

use super::*;

const SESSIONS: u32 = 5;
const PER_SESSION: usize = 3;
const ALL: u64 = 5;

#[derive(Clone, Debug)]
enum Step {
    Publish(u32, u8),
    Find(u32, u8, u32),
    Leave(u32, usize, bool, bool),
    End(u32),
    Revoke(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let session = 0..SESSIONS;
    prop_oneof![
        3 => (session.clone(), 0..4u8).prop_map(|(it, name)| Step::Publish(it, name)),
        3 => (session.clone(), 0..4u8, 0..2u32).prop_map(|(it, name, uid)| Step::Find(it, name, uid)),
        2 => (session.clone(), any::<usize>(), any::<bool>(), any::<bool>())
            .prop_map(|(it, which, serves, calls)| Step::Leave(it, which, serves, calls)),
        1 => session.clone().prop_map(Step::End),
        1 => session.prop_map(Step::Revoke),
    ]
}

fn asker(index: u32) -> Asker {
    let uid = index % 2;
    let session = ObjectId { index, generation: 1 };
    Asker { session, holder: Holder::user(uid), uid }
}

fn name(number: u8) -> FunctionName {
    FunctionName::parse(&format!("f{number}")).unwrap()
}

/// The loop, as far as it was told.
#[derive(Default)]
struct Loop {
    functions: BTreeSet<ObjectId>,
    ever: BTreeSet<ObjectId>,
    roles: BTreeMap<(ObjectId, ObjectId), (bool, bool)>,
}

impl Loop {
    fn hear(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Serve(function) => {
                    assert!(self.ever.insert(function), "{function} was served before");
                    self.functions.insert(function);
                }
                Effect::Gone(function) => assert!(self.functions.remove(&function)),
                Effect::Grant { session, function, role: Role { serves: false, calls: false } } => {
                    self.roles.remove(&(session, function));
                }
                Effect::Grant { session, function, role } => {
                    assert!(self.functions.contains(&function), "a role before its function");
                    self.roles.insert((session, function), (role.serves, role.calls));
                }
            }
        }
    }
}

fn act(rpc: &mut Rpc, step: &Step, ever: &[ObjectId], effects: &mut Vec<Effect>) {
    match *step {
        Step::Publish(session, number) => {
            let (others, request_bytes, reply_bytes, queue) = (false, 1, 1, 1);
            let name = name(number);
            let wanted = Publication { name, others, request_bytes, reply_bytes, queue };
            let _ = rpc.publish(&asker(session), wanted, 0, effects);
        }
        Step::Find(session, number, uid) => {
            let _ = rpc.find(&asker(session), &Key { uid, name: name(number) }, effects);
        }
        Step::Leave(session, which, serves, calls) if !ever.is_empty() => {
            let function = ever[which % ever.len()];
            let left = Role { serves, calls };
            let _ = rpc.leave(asker(session).session, function, left, effects);
        }
        Step::Leave(..) => {}
        Step::End(session) => rpc.end(asker(session).session, effects),
        Step::Revoke(session) => drop(rpc.revoke(&[asker(session).session], effects)),
    }
}

proptest! {
    #[test]
    fn the_loop_knows_what_is_so(steps in prop::collection::vec(step(), 1..120)) {
        let functions = Shares { user: 3, ..Shares::whole(ALL) };
        let mut rpc = Rpc::new(Limits { functions_per_session: PER_SESSION, functions });
        let mut told = Loop::default();
        for step in &steps {
            let (mut effects, ever) = (Vec::new(), told.ever.iter().copied().collect::<Vec<_>>());
            act(&mut rpc, step, &ever, &mut effects);
            told.hear(effects);
            let known: BTreeSet<_> = rpc.all().into_iter().map(|info| info.function).collect();
            prop_assert_eq!(&known, &told.functions);
            prop_assert!(known.len() as u64 <= ALL);
            for function in &known {
                let is_served = told.roles.iter().any(|((_, its), role)| its == function && role.0);
                prop_assert!(is_served, "{} is there and nobody serves it", function);
            }
            for index in 0..SESSIONS {
                let session = asker(index).session;
                let its = told.roles.iter().filter(|((whose, _), _)| *whose == session);
                let its: Vec<_> = its.map(|(_, role)| *role).collect();
                let wanted = Holding {
                    serves: its.iter().filter(|role| role.0).count(),
                    calls: its.iter().filter(|role| role.1).count(),
                };
                prop_assert_eq!(rpc.holding(session), wanted);
                prop_assert!(its.len() <= PER_SESSION);
            }
        }
        let mut effects = Vec::new();
        (0..SESSIONS).for_each(|index| rpc.end(asker(index).session, &mut effects));
        told.hear(effects);
        prop_assert_eq!((rpc.count(), told.functions.len(), told.roles.len()), (0, 0, 0));
        prop_assert_eq!(rpc.quotas()[0].1.used_by_all(), 0);
    }
}
