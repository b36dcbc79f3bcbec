//! Whatever sessions do in whatever order, the net service keeps its promises.

use std::collections::{HashMap, HashSet};

use heliostat_abi::name::{NetAddress, ObjectId};
use heliostat_service_grant::{Holder, Shares};
use proptest::prelude::*;

use crate::net::{Effect, Limits, Net, Opening};
use crate::{Endpoint, Namespace, Proof};

const LIMITS: Limits = Limits {
    ports_per_session: 2,
    channels_per_session: 5,
    channels_per_pair: 3,
    bytes_per_session: 400,
    ports: Shares::whole(100),
    channels: Shares { user: 8, ..Shares::whole(100) },
    bytes: Shares { user: 900, ..Shares::whole(10_000) },
};

#[derive(Clone, Debug)]
enum Step {
    Register { session: u32, port: u16, uid: u32 },
    Unregister { session: u32, port: u16 },
    Open { session: u32, port: u16 },
    Attach { session: u32, port: u16 },
    End { session: u32 },
    Revoke { session: u32 },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let (session, port) = (0..5u32, 80..83u16);
    let pair = (session.clone(), port.clone());
    let step = prop_oneof![
        3 => (session.clone(), port, 0..2u32)
            .prop_map(|(session, port, uid)| Step::Register { session, port, uid }),
        1 => pair.clone().prop_map(|(session, port)| Step::Unregister { session, port }),
        5 => pair.clone().prop_map(|(session, port)| Step::Open { session, port }),
        3 => pair.prop_map(|(session, port)| Step::Attach { session, port }),
        1 => session.clone().prop_map(|session| Step::End { session }),
        1 => session.prop_map(|session| Step::Revoke { session }),
    ];
    prop::collection::vec(step, 1..200)
}

/// The service beside what must be true of it.
struct World {
    net: Net,
    generations: HashMap<u32, u32>,
    sent: HashSet<(ObjectId, ObjectId, ObjectId)>,
    ever: HashSet<ObjectId>,
    active: HashSet<ObjectId>,
}

impl World {
    fn session(&self, index: u32) -> ObjectId {
        ObjectId { index, generation: self.generations.get(&index).copied().unwrap_or(1) }
    }

    fn apply(&mut self, step: &Step) {
        let mut effects = Vec::new();
        match *step {
            Step::Register { session, port, uid } => {
                let proof = Proof {
                    endpoint: endpoint(port),
                    v6_only: false,
                    owner_uid: uid,
                    socket: u64::from(uid),
                };
                let _ = self.net.register(
                    self.session(session),
                    Holder::user(uid),
                    proof,
                    &mut effects,
                );
            }
            Step::Unregister { session, port } => {
                if let Some(port) = self.net.port_at(endpoint(port)) {
                    let session = self.session(session);
                    let _ = self.net.unregister(session, port, &mut effects);
                    self.sent.retain(|(to, at, _)| (*to, *at) != (session, port));
                }
            }
            Step::Open { session, port } => self.open(session, port, &mut effects),
            Step::Attach { session, port } => self.attach(session, port),
            Step::End { session } => {
                self.net.end(self.session(session), &mut effects);
                *self.generations.entry(session).or_insert(1) += 1;
            }
            Step::Revoke { session } => {
                self.net.revoke(&[self.session(session)], &mut effects);
            }
        }
        self.follow(&effects);
    }

    fn open(&mut self, session: u32, port: u16, effects: &mut Vec<Effect>) {
        let Some(port) = self.net.resolve(endpoint(port)) else { return };
        let client = self.session(session);
        let opening = Opening { client, holder: Holder::user(session % 2), port, bytes: 100 };
        if let Ok(id) = self.net.open(opening, effects) {
            assert!(self.ever.insert(id), "identity {id} was given out twice");
        }
    }

    fn attach(&mut self, session: u32, port: u16) {
        let Some(port) = self.net.port_at(endpoint(port)) else { return };
        let session = self.session(session);
        let registered = self.net.port(port).is_some_and(|view| view.sessions.contains(&session));
        match self.net.attach(session, port) {
            Ok(batch) => {
                assert!(registered, "a session without registration attached");
                for channel in batch.channels {
                    assert!(self.active.contains(&channel), "a dead channel was handed out");
                    assert_eq!(self.net.channel(channel).map(|view| view.port), Some(port));
                    assert!(self.sent.insert((session, port, channel)), "sent twice");
                }
            }
            Err(_) => assert!(!registered),
        }
    }

    fn follow(&mut self, effects: &[Effect]) {
        for effect in effects {
            match effect {
                Effect::ChannelActive(id) => assert!(self.active.insert(*id)),
                Effect::ChannelRevoked(id) => assert!(self.active.remove(id)),
                Effect::ChannelFreed(id) => {
                    self.active.remove(id);
                    assert_eq!(self.net.channel(*id), None);
                }
                Effect::PortChanged(_) | Effect::RegistryChanged => {}
            }
        }
    }

    fn check(&self) {
        let mut bytes = 0;
        for index in 0..5 {
            let holding = self.net.holding(self.session(index));
            assert!(holding.ports <= LIMITS.ports_per_session);
            assert!(holding.channels <= LIMITS.channels_per_session);
            assert!(holding.bytes <= LIMITS.bytes_per_session);
            assert_eq!(holding.bytes, holding.channels as u64 * 100);
            bytes += holding.bytes;
        }
        assert_eq!(bytes, self.net.channel_count() as u64 * 100);
        assert_eq!(bytes, self.net.bytes.quota().1.used_by_all());
        assert!(self.net.bytes.quota().1.users().all(|(_, bytes)| bytes <= LIMITS.bytes.user));
        for port in self.net.ports() {
            assert!(!port.sessions.is_empty(), "a port without listeners stayed");
            assert_eq!(self.net.port_at(port.endpoint), Some(port.id));
        }
    }
}

fn endpoint(port: u16) -> Endpoint {
    let address = NetAddress::new(([127, 0, 0, 1], port).into());
    Endpoint { namespace: Namespace(1), address }
}

proptest! {
    #[test]
    fn any_order_of_requests_keeps_every_promise(steps in steps()) {
        let mut world = World {
            net: Net::new(LIMITS),
            generations: HashMap::new(),
            sent: HashSet::new(),
            ever: HashSet::new(),
            active: HashSet::new(),
        };
        for step in &steps {
            world.apply(step);
            world.check();
        }
        for index in 0..5 {
            world.apply(&Step::End { session: index });
        }
        world.check();
        prop_assert_eq!(world.net.channel_count() + world.net.port_count(), 0);
        let net = &world.net;
        let known = net.ports.session_count() + net.channels.session_count();
        prop_assert_eq!(known + net.bytes.session_count(), 0);
        prop_assert!(net.revoked.is_empty());
    }
}
