//! Each request of a session, from its record to its answer.

use heliostat_abi::code::Code;
use heliostat_abi::name::ObjectId;
use heliostat_abi::rpc::name::{OWN_USER, THIS_NODE};
use heliostat_abi::rpc::{Publication, RpcReply, RpcRequest};
use heliostat_abi::session::record::Reply;
use heliostat_base::clock::monotonic_ns;
use heliostat_control::rights::Right;
use heliostat_control::rules::Decision;
use heliostat_service_rpc::{Asker, Key, Role};

use crate::answer::Answer;
use crate::closer::ReceivedFd;
use crate::daemon::Daemon;
use crate::refused::{refuse, Refused};

/// A reply of the service as an answer.
pub(super) fn reply(reply: &RpcReply) -> Answer {
    Reply::Own(Box::new(reply.encode())).into()
}

impl Daemon {
    /// Answers a request that was decoded.
    pub(super) fn answer_rpc(
        &mut self,
        id: ObjectId,
        request: RpcRequest,
        shown: Option<ReceivedFd>,
    ) -> Result<Answer, Refused> {
        let uid = self.session(id)?.peer.subject.uid;
        let asker = Asker { session: id, holder: self.holder(id)?, uid };
        match request {
            RpcRequest::Publish(wanted) => self.publish_function(&asker, wanted),
            // Its policy names functions of this node.
            RpcRequest::Find { node, .. } if self.is_elsewhere(node) && self.is_restricted(id) => {
                Err(Code::Denied.into())
            }
            RpcRequest::Find { node, user, name } if self.is_elsewhere(node) => {
                let find = RpcRequest::Find { user, node: THIS_NODE, name };
                self.ask_rpc_node(&asker, node, find)
            }
            RpcRequest::ListOn { node, user, from, beginning } if self.is_elsewhere(node) => {
                let list = RpcRequest::List { user, from, beginning };
                self.ask_rpc_node(&asker, node, list)
            }
            RpcRequest::Find { user, name, .. } => {
                let uid = if user == OWN_USER { uid } else { user };
                self.find_function(&asker, &Key { uid, name })
            }
            RpcRequest::Leave { function, serves, calls } => {
                if let Some(answer) = self.leave_there(id, function) {
                    return answer;
                }
                let (mut effects, role) = (Vec::new(), Role { serves, calls });
                let left = self.services.rpc.grants.leave(id, function, role, &mut effects);
                self.carry_out_rpc(effects);
                left.map_err(refuse(id))?;
                Ok(Reply::Done.into())
            }
            RpcRequest::Session => self.serve_rpc(&asker, shown.ok_or(Code::BadRecord)?),
            RpcRequest::List { user, from, beginning }
            | RpcRequest::ListOn { user, from, beginning, .. } => {
                let sees_all = self.is_owner(id);
                let sees =
                    |owner: u32| (user == OWN_USER || owner == user) && (sees_all || owner == uid);
                let grants = &self.services.rpc.grants;
                let (functions, next) = grants.list(from, &beginning, monotonic_ns(), sees);
                Ok(reply(&RpcReply::Listed { functions, next }))
            }
        }
    }

    fn publish_function(&mut self, asker: &Asker, wanted: Publication) -> Result<Answer, Refused> {
        self.check_right(asker.session, Right::Publish, &wanted.name, asker.uid)?;
        let mut effects = Vec::new();
        let grants = &mut self.services.rpc.grants;
        let published = grants.publish(asker, wanted, monotonic_ns(), &mut effects);
        self.carry_out_rpc(effects);
        self.granted_function(published.map_err(refuse(asker.session))?)
    }

    fn find_function(&mut self, asker: &Asker, key: &Key) -> Result<Answer, Refused> {
        self.judge_call(asker, key)?;
        let mut effects = Vec::new();
        let found = self.services.rpc.grants.find(asker, key, &mut effects);
        self.carry_out_rpc(effects);
        self.granted_function(found.map_err(refuse(asker.session))?)
    }

    /// Refuses who may not call the function of a name: a rule says so, or without one it is another
    /// user's who has not opened it. Whether there is one is told to nobody who may not call it.
    fn judge_call(&mut self, asker: &Asker, key: &Key) -> Result<(), Refused> {
        let decision = self.decide(asker.session, Right::Call, &key.name, key.uid)?;
        let grants = &self.services.rpc.grants;
        let is_open = grants.resolve(key).is_some_and(|it| grants.is_open_to(it, asker.uid));
        let is_allowed = match decision {
            Decision::Foreign => {
                let sees_all = self.is_owner(asker.session) && !self.is_restricted(asker.session);
                is_open || sees_all
            }
            other => other.is_allowed(),
        };
        if is_allowed {
            return Ok(());
        }
        let (right, name) = (Right::Call.to_string(), key.name.to_string());
        self.denials.note(asker.uid, &right, &name, decision);
        Err(Code::Denied.into())
    }

    fn granted_function(&self, function: ObjectId) -> Result<Answer, Refused> {
        let info = self.services.rpc.grants.info(function).ok_or(Code::Internal)?;
        Ok(reply(&RpcReply::Granted(info)))
    }
}
