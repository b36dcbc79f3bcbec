//! The state of the service, and what sessions do to it.

use std::collections::{HashMap, HashSet};

use heliostat_abi::code::Thing;
use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::limits::FUNCTIONS_MAX;
use heliostat_abi::rpc::name::THIS_NODE;
use heliostat_abi::rpc::{FunctionInfo, FunctionName, Publication};
use heliostat_service_grant::{Grants, Holder, Limit, Revoked, Shares};

use crate::refusal::{Reason, Refusal};

/// How much there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Functions that one session serves and calls.
    pub functions_per_session: usize,
    /// Functions of a user, and of the node.
    pub functions: Shares,
}

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asker {
    /// The session.
    pub session: ObjectId,
    /// Whose share its functions count against.
    pub holder: Holder,
    /// Its user.
    pub uid: u32,
}

/// What has a name: a user's function.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Key {
    /// The user.
    pub uid: u32,
    /// The name among those of this user.
    pub name: FunctionName,
}

/// What a session does with a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Role {
    /// It receives its calls.
    pub serves: bool,
    /// It calls it.
    pub calls: bool,
}

/// What the caller has to tell the server loop, in order, before it answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// A function is served from now on.
    Serve(ObjectId),
    /// Nobody serves it any more.
    Gone(ObjectId),
    /// A session has this role from now on.
    Grant {
        /// The session.
        session: ObjectId,
        /// The function.
        function: ObjectId,
        /// Its role; an empty one is none.
        role: Role,
    },
}

#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) key: Key,
    pub(crate) others: bool,
    pub(crate) request_bytes: u32,
    pub(crate) reply_bytes: u32,
    pub(crate) queue: u32,
    pub(crate) since_ns: u64,
}

/// The service.
#[derive(Clone, Debug)]
pub struct Rpc {
    pub(crate) functions: Grants<Function, Role>,
    pub(crate) names: HashMap<Key, ObjectId>,
    /// Sessions whose operations are delegated.
    pub(crate) served: HashSet<ObjectId>,
    pub(crate) revoked: Revoked,
}

fn limit(limits: Limits) -> Limit {
    Limit { per_session: limits.functions_per_session, shares: limits.functions }
}

impl Rpc {
    /// A service that knows nobody yet.
    pub fn new(limits: Limits) -> Self {
        Self {
            functions: Grants::new(Thing::Functions, FUNCTIONS_MAX, limit(limits)),
            names: HashMap::new(),
            served: HashSet::new(),
            revoked: Revoked::default(),
        }
    }

    /// New limits for what is asked from now on; what was granted stays.
    pub fn set_limits(&mut self, limits: Limits) {
        self.functions.set_limit(limit(limits));
    }

    /// The function that has a name now.
    pub fn resolve(&self, key: &Key) -> Option<ObjectId> {
        self.names.get(key).copied()
    }

    /// Refuses a session that was revoked.
    ///
    /// # Errors
    /// It was.
    pub fn check_session(&self, session: ObjectId) -> Result<(), Refusal> {
        self.revoked.check(session)
    }

    /// Whether a user may call a function by its publisher's word.
    pub fn is_open_to(&self, function: ObjectId, uid: u32) -> bool {
        self.functions.get(function).is_some_and(|it| it.others || it.key.uid == uid)
    }

    /// Has a session serve a function of its user's, which begins with its first server and is what
    /// that one said. The caller has checked the rights.
    ///
    /// # Errors
    /// A limit is reached, or the session was revoked.
    pub fn publish(
        &mut self,
        asker: &Asker,
        wanted: Publication,
        now_ns: u64,
        effects: &mut Vec<Effect>,
    ) -> Result<ObjectId, Refusal> {
        self.revoked.check(asker.session)?;
        let key = Key { uid: asker.uid, name: wanted.name };
        let function = match self.resolve(&key) {
            Some(function) => {
                self.functions.share(asker.session, function)?;
                function
            }
            None => {
                let Publication { others, request_bytes, reply_bytes, queue, .. } = wanted;
                let since_ns = now_ns;
                let made = Function {
                    key: key.clone(),
                    others,
                    request_bytes,
                    reply_bytes,
                    queue,
                    since_ns,
                };
                let function = self.functions.grant(asker.session, asker.holder, made)?;
                self.names.insert(key, function);
                effects.push(Effect::Serve(function));
                function
            }
        };
        self.give(asker.session, function, |role| role.serves = true, effects);
        Ok(function)
    }

    /// Has a session call a function. The caller has checked the rights.
    ///
    /// # Errors
    /// Nobody serves it, a limit is reached, or the session was revoked.
    pub fn find(
        &mut self,
        asker: &Asker,
        key: &Key,
        effects: &mut Vec<Effect>,
    ) -> Result<ObjectId, Refusal> {
        self.revoked.check(asker.session)?;
        let function = self.resolve(key).ok_or(Reason::NotFound)?;
        self.functions.share(asker.session, function)?;
        self.give(asker.session, function, |role| role.calls = true, effects);
        Ok(function)
    }

    fn give(
        &mut self,
        session: ObjectId,
        function: ObjectId,
        change: impl FnOnce(&mut Role),
        effects: &mut Vec<Effect>,
    ) {
        let Some((_, role)) = self.functions.get_held(session, function) else { return };
        change(role);
        let role = *role;
        effects.push(Effect::Grant { session, function, role });
    }

    /// A session is done with a function, in one role or in both.
    ///
    /// # Errors
    /// It neither serves nor calls it.
    pub fn leave(
        &mut self,
        session: ObjectId,
        function: ObjectId,
        left: Role,
        effects: &mut Vec<Effect>,
    ) -> Result<(), Refusal> {
        self.revoked.check(session)?;
        let found = self.functions.held(session, function);
        let (_, role) = found.ok_or(Reason::NoFunction { function })?;
        let kept = Role { serves: role.serves && !left.serves, calls: role.calls && !left.calls };
        self.let_go(session, function, kept, effects);
        Ok(())
    }

    /// Leaves a session this role with a function; with its last server it ends.
    fn let_go(
        &mut self,
        session: ObjectId,
        function: ObjectId,
        kept: Role,
        effects: &mut Vec<Effect>,
    ) {
        match self.functions.get_held(session, function) {
            Some((_, role)) if kept != Role::default() => *role = kept,
            _ => drop(self.functions.leave(session, function)),
        }
        let is_served = self.functions.sessions(function).any(|(_, role)| role.serves);
        if !is_served {
            effects.push(Effect::Gone(function));
            let callers = self.functions.sessions(function).map(|(caller, _)| caller);
            let others = callers.filter(|caller| *caller != session);
            let role = Role::default();
            let lost = |session| Effect::Grant { session, function, role };
            effects.extend(others.chain([session]).map(lost));
            if let Some(gone) = self.functions.remove(function) {
                self.names.remove(&gone.key);
            }
            return;
        }
        effects.push(Effect::Grant { session, function, role: kept });
    }

    /// The session's operations are delegated from now on: the loop hears what it may do.
    ///
    /// # Errors
    /// They are already, or the session was revoked.
    pub fn serve(&mut self, session: ObjectId, effects: &mut Vec<Effect>) -> Result<(), Refusal> {
        self.revoked.check(session)?;
        if !self.served.insert(session) {
            return Err(Reason::Served.into());
        }
        for function in self.functions.of(session) {
            if let Some((_, role)) = self.functions.held(session, function) {
                effects.push(Effect::Grant { session, function, role: *role });
            }
        }
        Ok(())
    }

    /// A session has ended.
    pub fn end(&mut self, session: ObjectId, effects: &mut Vec<Effect>) {
        self.take_all(session, effects);
        self.revoked.forget(session);
    }

    /// Takes everything from some sessions, which get nothing any more; how many functions those were.
    pub fn revoke(&mut self, sessions: &[ObjectId], effects: &mut Vec<Effect>) -> usize {
        let mut count = 0;
        for session in sessions {
            count += self.take_all(*session, effects);
            self.revoked.insert(*session);
        }
        count
    }

    fn take_all(&mut self, session: ObjectId, effects: &mut Vec<Effect>) -> usize {
        let all: Vec<_> = self.functions.of(session).collect();
        all.iter().for_each(|function| self.let_go(session, *function, Role::default(), effects));
        self.served.remove(&session);
        all.len()
    }

    /// What a function is.
    pub fn info(&self, function: ObjectId) -> Option<FunctionInfo> {
        let Function { key, others, request_bytes, reply_bytes, queue, .. } =
            self.functions.get(function)?;
        Some(FunctionInfo {
            function,
            user: key.uid,
            node: THIS_NODE,
            request_bytes: *request_bytes,
            reply_bytes: *reply_bytes,
            queue: *queue,
            others: *others,
        })
    }
}
