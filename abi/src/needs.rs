//! What a restricted session needs for a request of a service of its own: a right on a name, among whose.

use crate::lock::LockRequest;
use crate::memory::MemoryRequest;
use crate::rpc::RpcRequest;
use crate::session::record::OwnRequest;
use crate::snapshot::region_name::RegionName;
use crate::snapshot::region_scope::RegionRight;
use crate::store::{AreaRights, StoreRequest};
use crate::{lock, memory, rpc, store};

/// A right on a name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Need {
    /// Which right.
    pub right: RegionRight,
    /// On which name. Every name of one service is one of the others; `None` is had by nobody.
    pub name: Option<RegionName>,
    /// Among whose: a user, or the number that stands for the own one.
    pub owner: u32,
}

impl Need {
    fn new(right: RegionRight, name: &str, owner: u32) -> Need {
        Need { right, name: RegionName::parse(name).ok(), owner }
    }

    /// The right that a request takes; `None` where it names nothing, or is none: then it is refused by
    /// its service.
    pub fn of(own: &OwnRequest) -> Option<Need> {
        match own.number >> 8 {
            memory::request::SERVICE => {
                let asked = MemoryRequest::decode(own).ok()?;
                let (right, name, owner) = asked.needs()?;
                Some(Need::new(right, name.as_str(), owner))
            }
            lock::request::SERVICE => match LockRequest::decode(own).ok()? {
                LockRequest::Open { user, name, .. } => {
                    Some(Need::new(RegionRight::Acquire, name.as_str(), user))
                }
                _ => None,
            },
            rpc::request::SERVICE => match RpcRequest::decode(own).ok()? {
                RpcRequest::Publish(wanted) => {
                    let own_user = rpc::name::OWN_USER;
                    Some(Need::new(RegionRight::Serve, wanted.name.as_str(), own_user))
                }
                RpcRequest::Find { user, name, .. } => {
                    Some(Need::new(RegionRight::Call, name.as_str(), user))
                }
                _ => None,
            },
            store::request::SERVICE => of_store(&StoreRequest::decode(own).ok()?),
            _ => None,
        }
    }
}

fn of_store(asked: &StoreRequest) -> Option<Need> {
    match asked {
        StoreRequest::Create(wanted) => {
            let own_user = store::name::OWN_USER;
            Some(Need::new(RegionRight::CreateArea, wanted.name.as_str(), own_user))
        }
        StoreRequest::Open { user, name, rights, .. } => {
            let right = match rights {
                rights if rights.have(AreaRights::MANAGE) => RegionRight::ManageArea,
                rights if rights.have(AreaRights::WRITE) => RegionRight::WriteArea,
                _ => RegionRight::ReadArea,
            };
            Some(Need::new(right, name.as_str(), *user))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::{LockName, Shape};
    use crate::rpc::{FunctionName, Publication};

    #[test]
    fn scopes_have_the_prefixes_that_the_services_have() {
        use crate::snapshot::region_scope::NamesOf;
        assert_eq!(NamesOf::Memory.prefix(), memory::name::PREFIX);
        assert_eq!(NamesOf::Locks.prefix(), lock::name::PREFIX);
        assert_eq!(NamesOf::Functions.prefix(), rpc::name::PREFIX);
        assert_eq!(NamesOf::Areas.prefix(), store::name::PREFIX);
    }

    #[test]
    fn what_names_something_needs_a_right_on_it_and_nothing_else_does() {
        let name = LockName::parse("a/b").unwrap();
        let open = LockRequest::Open { user: 8, name, shape: Shape::LOCK }.encode();
        assert_eq!(Need::of(&open), Some(Need::new(RegionRight::Acquire, "a/b", 8)));
        assert_eq!(Need::of(&LockRequest::Next.encode()), None);
        let name = FunctionName::parse("f").unwrap();
        let find = RpcRequest::Find { user: 8, node: 0, name: name.clone() }.encode();
        assert_eq!(Need::of(&find), Some(Need::new(RegionRight::Call, "f", 8)));
        let wanted =
            Publication { name, others: false, request_bytes: 1, reply_bytes: 1, queue: 1 };
        let publish = RpcRequest::Publish(wanted).encode();
        let serve = Need::new(RegionRight::Serve, "f", rpc::name::OWN_USER);
        assert_eq!(Need::of(&publish), Some(serve));
        assert_eq!(Need::of(&RpcRequest::Session.encode()), None);
    }

    #[test]
    fn an_area_needs_the_most_that_is_wanted_of_it() {
        use crate::store::{Alone, AreaKind, AreaName, Creation, WayWanted};
        let name = || AreaName::parse("a/b").unwrap();
        let (way, alone) = (WayWanted::Any, Alone::No);
        let need = |rights| {
            let open = StoreRequest::Open { user: 8, name: name(), rights, way, alone };
            Need::of(&open.encode()).map(|need| (need.right, need.owner))
        };
        assert_eq!(need(AreaRights::NONE), Some((RegionRight::ReadArea, 8)));
        assert_eq!(need(AreaRights::READ), Some((RegionRight::ReadArea, 8)));
        let both = AreaRights::READ.and(AreaRights::WRITE);
        assert_eq!(need(both), Some((RegionRight::WriteArea, 8)));
        assert_eq!(need(AreaRights::ALL), Some((RegionRight::ManageArea, 8)));
        let (others, rights) = (AreaRights::NONE, AreaRights::READ);
        let kind = AreaKind::Raw;
        let wanted = Creation { name: name(), bytes: 1, kind, others, rights, way, alone };
        let create = StoreRequest::Create(wanted).encode();
        let needed = Need::new(RegionRight::CreateArea, "a/b", store::name::OWN_USER);
        assert_eq!(Need::of(&create), Some(needed));
        assert_eq!(Need::of(&StoreRequest::Session.encode()), None);
    }
}
