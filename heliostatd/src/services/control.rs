//! The control plane itself: sessions begin and are restricted, people ask and stop.

use heliostat_abi::session::record::{self, Request};

use super::no_such_request;
use crate::answer::Answer;
use crate::daemon::{Asked, Daemon, Service};
use crate::refused::Refused;

/// The control plane, in the table of services. It grants nothing, so nothing of it ends.
pub struct Control;

impl Service for Control {
    fn number(&self) -> u16 {
        record::Service::Control as u16
    }

    fn answer(&self, daemon: &mut Daemon, asked: Asked) -> Result<Answer, Refused> {
        let id = asked.session;
        match asked.request {
            Request::Hello { program } => daemon.greet(id, program),
            Request::Status => daemon.status(id),
            Request::Explain { pid } => daemon.explain(id, pid),
            Request::Metrics => daemon.metrics(),
            Request::Revoke { pid } => daemon.revoke(id, pid),
            Request::Stop => daemon.stop(id),
            Request::Allow { destination } => daemon.allow(id, destination),
            Request::AllowRegions { scope } => daemon.allow_regions(id, scope),
            Request::Restrict { services, pid } => daemon.restrict(id, services, pid),
            _ => no_such_request(),
        }
    }
}
