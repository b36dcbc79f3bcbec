//! The metrics: counted in plain numbers (`state::counts`), written as OpenMetrics text when somebody
//! asks.
//!
//! A registry is built for each scrape. That costs microseconds once in fifteen seconds, and
//! keeps atomics, label maps and their growth out of the daemon's state.

use heliostat_abi::code::{Code, Native, Unmapped};
use heliostat_abi::session::report::COUNTER_NAMES;
use heliostat_base::clock::monotonic_ns;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tracing::warn;

use crate::answer::{text_answer, Answer};
use crate::daemon::Daemon;
use crate::refused::Refused;
use crate::state::counts::add;

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ReasonLabel {
    reason: String,
}

impl Daemon {
    /// The metrics as text.
    pub(crate) fn metrics(&self) -> Result<Answer, Refused> {
        let mut registry = Registry::with_prefix("heliostat");
        self.add_gauges(&mut registry);
        self.add_counters(&mut registry);
        self.add_stub_counters(&mut registry);
        self.parts.table.iter().for_each(|service| service.metrics(self, &mut registry));
        let mut text = String::new();
        if encode(&mut text, &registry).is_err() {
            warn!("the metrics could not be written");
            return Err(heliostat_abi::code::Code::Internal.into());
        }
        text_answer(&text)
    }

    fn add_gauges(&self, registry: &mut Registry) {
        let sessions = self.connections.iter().filter(|(_, it)| it.session.is_some());
        let uptime = monotonic_ns().saturating_sub(self.started_ns) / 1_000_000_000;
        let mut gauges = vec![
            ("uptime_seconds", "Seconds since the control plane started", uptime),
            ("connections", "Control connections now open", self.connections.len() as u64),
            ("sessions", "Sessions now alive", sessions.count() as u64),
        ];
        gauges.extend(self.parts.table.iter().flat_map(|service| service.gauges(self)));
        for (name, help, value) in gauges {
            let gauge: Gauge = Gauge::default();
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
            registry.register(name, help, gauge);
        }
    }

    fn add_counters(&self, registry: &mut Registry) {
        let connections: Counter = Counter::default();
        connections.inc_by(self.counts.connections);
        registry.register("connections_accepted", "Control connections ever accepted", connections);
        let revoked: Counter = Counter::default();
        revoked.inc_by(self.counts.revoked);
        registry.register("channels_revoked", "Channels ever revoked", revoked);
        let unread: Counter = Counter::default();
        unread.inc_by(self.counts.unread);
        let help = "Connections ended because they did not read their answers";
        registry.register("connections_unread", help, unread);
        let broken: Counter = Counter::default();
        broken.inc_by(self.counts.leases_broken);
        registry.register("leases_broken", "Leases that a writer has broken", broken);
        let help = "Leases asked for and not given, by reason";
        registry.register("leases_refused", help, file_reasons(&self.counts.not_leased));
        let requests = Family::<KindLabel, Counter>::default();
        for (number, row) in self.rows() {
            let count = self.counts.requests.get(&number).copied().unwrap_or(0);
            requests.get_or_create(&KindLabel { kind: row.name }).inc_by(count);
        }
        registry.register("requests", "Requests served, by kind", requests);
        let refusals = Family::<KindLabel, Counter>::default();
        for (code, count) in Code::ALL.iter().zip(self.counts.refusals).skip(1) {
            refusals.get_or_create(&KindLabel { kind: code_word(*code) }).inc_by(count);
        }
        registry.register("refusals", "Requests and connections refused, by reason", refusals);
    }

    fn add_stub_counters(&self, registry: &mut Registry) {
        let mut sums = self.counts.ended;
        let mut reasons = self.counts.ended_reasons.0;
        let mut of_files = self.counts.ended_file_reasons;
        for (_, connection) in self.connections.iter() {
            if let Some(session) = &connection.session {
                add(&mut sums, &session.report.counters());
                add(&mut reasons, &session.report.reasons());
                add(&mut of_files, &session.report.file_reasons());
            }
        }
        for (name, sum) in COUNTER_NAMES.iter().zip(sums) {
            let counter: Counter = Counter::default();
            counter.inc_by(sum);
            let help = format!("{}, as stubs report", name.replace('_', " "));
            registry.register(format!("stub_{name}"), help, counter);
        }
        let family = Family::<ReasonLabel, Counter>::default();
        for (reason, count) in Native::ALL.iter().zip(reasons).skip(1) {
            family.get_or_create(&ReasonLabel { reason: format!("{reason:?}") }).inc_by(count);
        }
        let help = "Connections that were or went native, by reason, as stubs report";
        registry.register("stub_native_reasons", help, family);
        let help = "Open files whose reads are or went native, by reason, as stubs report";
        registry.register("stub_unmapped_reasons", help, file_reasons(&of_files));
    }
}

fn file_reasons(counts: &[u64; Unmapped::ALL.len()]) -> Family<ReasonLabel, Counter> {
    let family = Family::<ReasonLabel, Counter>::default();
    for (reason, count) in Unmapped::ALL.iter().zip(counts).skip(1) {
        family.get_or_create(&ReasonLabel { reason: format!("{reason:?}") }).inc_by(*count);
    }
    family
}

fn code_word(code: Code) -> &'static str {
    match code {
        Code::Ok => "ok",
        Code::NotFound => "not_found",
        Code::Denied => "denied",
        Code::Full => "full",
        Code::BadRecord => "bad_record",
        Code::BadState => "bad_state",
        Code::BadVersion => "bad_version",
        Code::Revoked => "revoked",
        Code::Internal => "internal",
        Code::Stale => "stale",
        Code::Unwilling => "unwilling",
        Code::Unreachable => "unreachable",
        Code::Moved => "moved",
    }
}
