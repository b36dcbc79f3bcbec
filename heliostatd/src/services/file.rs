//! Files: leases on them, and operations that sessions delegate to the server loops.

mod delegated;
mod lease;

use heliostat_abi::code::Thing;
use heliostat_abi::file::delegated::{BUFFERED, DIRECT};
use heliostat_abi::name::ObjectId;
use heliostat_abi::session::record::{self, Reply, Request};
use heliostat_control::config::Config;
use heliostat_server_loop::{Border, Sample};
use heliostat_service_grant::Quota;
use prometheus_client::registry::Registry;
use serde_json::{json, Value};

use super::no_such_request;
use crate::answer::Answer;
use crate::daemon::{Asked, Daemon, Service, Told, Viewer};
use crate::refused::Refused;
use crate::shares;
use crate::state::file::delegated::Delegated;

/// Files, in the table of services.
pub struct Files;

impl Service for Files {
    fn number(&self) -> u16 {
        record::Service::File as u16
    }

    fn answer(&self, daemon: &mut Daemon, asked: Asked) -> Result<Answer, Refused> {
        let id = asked.session;
        match asked.request {
            Request::Lease => daemon.lease(id, asked.only_descriptor()?),
            Request::EndLease { lease } => daemon.end_lease(id, lease),
            Request::Delegate { members } => daemon.delegate(id, asked.only_descriptor()?, members),
            Request::EndDelegate => {
                daemon.end_delegated(id);
                Ok(Reply::Done.into())
            }
            Request::ShowFile { tag, direct, buffered } => {
                let way = if direct { DIRECT } else { 0 } | if buffered { BUFFERED } else { 0 };
                daemon.show_file(id, asked.only_descriptor()?, tag, way)
            }
            _ => no_such_request(),
        }
    }

    fn end(&self, daemon: &mut Daemon, session: ObjectId) {
        let mut effects = Vec::new();
        daemon.services.file.grants.end(session, &mut effects);
        daemon.carry_out_files(effects);
        daemon.end_delegated(session);
        daemon.services.meters.end(session);
    }

    fn revoke(&self, daemon: &mut Daemon, sessions: &[ObjectId]) -> usize {
        let mut effects = Vec::new();
        let leases = daemon.services.file.grants.revoke(sessions, &mut effects);
        daemon.carry_out_files(effects);
        sessions.iter().for_each(|session| daemon.end_delegated(*session));
        leases
    }

    fn set_limits(&self, daemon: &mut Daemon, config: &Config) {
        let files = &mut daemon.services.file;
        files.grants.set_limits(shares::files(config));
        if let Some(delegated) = &mut files.delegated {
            delegated.configure(shares::delegated(config), &config.rules);
        }
    }

    fn quotas<'a>(&self, daemon: &'a Daemon) -> Vec<(Thing, &'a Quota)> {
        let files = &daemon.services.file;
        let of_delegated = files.delegated.iter().flat_map(Delegated::quotas);
        of_delegated.chain([files.grants.quota()]).collect()
    }

    fn status(&self, daemon: &Daemon, viewer: Viewer, told: &mut Told) {
        let leases = daemon.leases_json(viewer.sees_all, viewer.uid);
        told.insert("leases".into(), Value::Array(leases));
        told.insert("delegated".into(), daemon.delegated_json());
        told.insert("copies".into(), copies_json(&daemon.services.file.copies));
    }

    fn session_status(&self, daemon: &Daemon, session: ObjectId, told: &mut Told) {
        told.insert("leases".into(), json!(daemon.services.file.grants.holding(session)));
    }

    fn explain(&self, daemon: &Daemon, sessions: &[ObjectId], told: &mut Told) {
        let sessions = || sessions.iter().copied();
        let files: Vec<_> = sessions().flat_map(|id| daemon.leased_paths(id)).collect();
        let delegated: Vec<_> = sessions().flat_map(|id| daemon.delegated_files(id)).collect();
        let loops: Vec<_> = sessions().filter_map(|id| daemon.delegated_loop(id)).collect();
        told.insert("files".into(), json!(files));
        told.insert("delegated".into(), Value::Array(delegated));
        told.insert("delegated_loops".into(), Value::Array(loops));
        told.insert("delegated_rule".into(), Daemon::delegated_rule());
        told.insert("delegated_devices".into(), daemon.delegated_devices());
    }

    fn gauges(&self, daemon: &Daemon) -> Vec<(&'static str, &'static str, u64)> {
        let leases = daemon.services.file.grants.lease_count() as u64;
        vec![("leases", "Files now under a lease", leases)]
    }

    fn metrics(&self, daemon: &Daemon, registry: &mut Registry) {
        daemon.add_delegated(registry);
    }
}

/// From which size on payload goes around the cache, and what was measured.
fn copies_json(border: &Border) -> Value {
    let each = border.samples.iter().map(|sample| {
        let Sample { bytes, memcpy_ns, nontemporal_ns } = sample;
        json!({ "bytes": bytes, "through_ns": memcpy_ns, "around_ns": nontemporal_ns })
    });
    let samples: Vec<_> = each.collect();
    json!({ "around_from_bytes": border.from_bytes(), "measured": samples })
}
