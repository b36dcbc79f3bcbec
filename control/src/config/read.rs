//! From the text of a configuration file to a checked `Config`.

#[path = "read_classes.rs"]
mod classes;
#[path = "read_programs.rs"]
mod programs;
#[path = "read_rates.rs"]
mod rates;

use super::error::{ConfigError, Fault};
use super::field::{Field, Section, Source};
use super::Requests::{Auto, Threads, Uring};
use super::{
    Channel, Cluster, Config, Daemon, Delegated, Limits, Locks, Log, LogFormat, LogLevel, Memory,
    Network, Quality, Rpc, SharedAddresses, Store, LOOPS_MAX,
};
use crate::name::NamePattern;
use crate::rights::Right;
use crate::rules::{Action, Rule, Rules};
use heliostat_abi::file::delegated;
use heliostat_abi::limits::{
    ATTACHMENTS_MAX, CHANNELS_MAX, CHANNELS_PER_PAIR_MAX, LEASES_MAX, PORTS_MAX, REGIONS_MAX,
    RING_BYTES_MAX, RING_BYTES_MIN, SESSIONS_MAX, SLOTS_MAX,
};

/// How the names of users and groups in rules become numbers; the caller has read the databases.
pub trait Names {
    /// The user's number.
    fn user(&self, name: &str) -> Option<u32>;
    /// The group's number.
    fn group(&self, name: &str) -> Option<u32>;
}

/// The tables of a configuration.
const SECTIONS: &[&str] = &[
    "daemon",
    "log",
    "limits",
    "channel",
    "delegated",
    "memory",
    "cluster",
    "locks",
    "rpc",
    "network",
    "store",
    "listener",
    "rule",
    "rate",
    "class",
    "quality",
    "durable",
    "cores",
    "offload",
    "carry",
];
/// Rules in one configuration: each is looked at for every open.
const RULES_MAX: usize = 1024;
/// Seconds in a year: longer is "never", which is 0.
const IDLE_EXIT_MAX_S: u64 = 365 * 24 * 3600;
/// Smallest channel: one slot with the smallest rings.
const SHARED_BYTES_MIN: u64 = 1 << 20;
/// Smallest cache and window: a few blocks.
const CACHE_BYTES_MIN: u64 = 1 << 20;
/// Largest number of a core, as the kernel's own limit for x86-64.
const CORE_MAX: u64 = 8191;
/// Largest promise: more than the address space of one program could map.
const SHARED_BYTES_MAX: u64 = 1 << 46;
/// More than any process may have descriptors.
const UNREAD_MAX: usize = 1 << 20;

impl Config {
    /// Reads a configuration; every key may be left out.
    pub fn read(text: &str, names: &dyn Names) -> Result<Config, ConfigError> {
        let source = Source(text);
        let document = source.document()?;
        let root = Section::new(source, "", 0, document.get_ref(), SECTIONS)?;
        let mut config = Config::default();
        if let Some(field) = root.field("daemon") {
            config.daemon = read_daemon(&field)?;
        }
        if let Some(field) = root.field("log") {
            config.log = read_log(&field)?;
        }
        if let Some(field) = root.field("limits") {
            config.limits = read_limits(&field)?;
        }
        if let Some(field) = root.field("channel") {
            config.channel = read_channel(&field)?;
        }
        if let Some(field) = root.field("delegated") {
            config.delegated = read_delegated(&field)?;
        }
        read_services(&root, &mut config)?;
        programs::read(&root, &mut config)?;
        if let Some(field) = root.field("store") {
            let user = |field: &Field<'_>| read_id(field, "user", |name| names.user(name));
            config.store = Store::read(&field, user)?;
        }
        if let Some(field) = root.field("rule") {
            config.rules = read_rules(&field, names)?;
        }
        if let Some(field) = root.field("rate") {
            config.rates = rates::read(&field, names)?;
        }
        if let Some(field) = root.field("class") {
            config.classes = classes::read(&field, names)?;
        }
        if let Some(field) = root.field("quality") {
            config.quality = Quality::read(&field)?;
        }
        Ok(config)
    }
}

/// Services that have a table of their own, and nobody's names in it.
fn read_services(root: &Section<'_>, config: &mut Config) -> Result<(), ConfigError> {
    if let Some(field) = root.field("locks") {
        config.locks = Locks::read(&field)?;
    }
    if let Some(field) = root.field("memory") {
        config.memory = Memory::read(&field)?;
    }
    if let Some(field) = root.field("cluster") {
        config.cluster = Some(Cluster::read(&field)?);
    }
    if let Some(field) = root.field("network") {
        config.network = Network::read(&field)?;
    }
    if let Some(field) = root.field("rpc") {
        config.rpc = Rpc::read(&field)?;
    }
    if let Some(field) = root.field("listener") {
        config.listeners = SharedAddresses::read(&field)?;
    }
    Ok(())
}

fn read_daemon(field: &Field<'_>) -> Result<Daemon, ConfigError> {
    let section = field.section(&["idle_exit_s", "metrics_listen"])?;
    let mut daemon = Daemon::default();
    section.number("idle_exit_s", (0, IDLE_EXIT_MAX_S), &mut daemon.idle_exit_s)?;
    if let Some(listen) = section.field("metrics_listen") {
        let text = listen.text()?;
        let wrong =
            |_| listen.fault(Fault::Value(format!("{text:?} is no address as 127.0.0.1:9464")));
        daemon.metrics_listen = Some(text.parse().map_err(wrong)?);
    }
    Ok(daemon)
}

fn read_log(field: &Field<'_>) -> Result<Log, ConfigError> {
    let section = field.section(&["level", "format"])?;
    let mut log = Log::default();
    if let Some(level) = section.field("level") {
        log.level = level.choice(&[
            ("error", LogLevel::Error),
            ("warn", LogLevel::Warn),
            ("info", LogLevel::Info),
            ("debug", LogLevel::Debug),
            ("trace", LogLevel::Trace),
        ])?;
    }
    if let Some(format) = section.field("format") {
        log.format = format.choice(&[("text", LogFormat::Text), ("json", LogFormat::Json)])?;
    }
    Ok(log)
}

fn read_limits(field: &Field<'_>) -> Result<Limits, ConfigError> {
    let section = field.section(&[
        "sessions_per_user",
        "ports_per_session",
        "ports_per_user",
        "regions_per_session",
        "regions_per_user",
        "attachments_per_session",
        "attachments_per_user",
        "leases_per_session",
        "leases_per_user",
        "channels_per_session",
        "channels_per_user",
        "channels_per_pair",
        "shared_bytes_per_session",
        "shared_bytes_per_user",
        "connects_per_second",
        "connects_burst",
        "unread_descriptors_per_user",
        "unread_bytes_per_user",
        "sealed_percent",
        "reserve_percent",
    ])?;
    let mut limits = Limits::default();
    let bytes = (SHARED_BYTES_MIN, SHARED_BYTES_MAX);
    let pairs = (1, CHANNELS_PER_PAIR_MAX as u64);
    let channels = (1, CHANNELS_MAX as u64);
    let users = (1, SESSIONS_MAX as u64);
    section.number("sessions_per_user", users, &mut limits.sessions_per_user)?;
    section.number("ports_per_session", (1, PORTS_MAX as u64), &mut limits.ports_per_session)?;
    let regions = (1, REGIONS_MAX as u64);
    let attachments = (1, ATTACHMENTS_MAX as u64);
    section.number("regions_per_session", regions, &mut limits.regions_per_session)?;
    let per_session = &mut limits.attachments_per_session;
    section.number("attachments_per_session", attachments, per_session)?;
    let leases = (1, LEASES_MAX as u64);
    section.number("leases_per_session", leases, &mut limits.leases_per_session)?;
    section.number("channels_per_session", channels, &mut limits.channels_per_session)?;
    section.number("channels_per_pair", pairs, &mut limits.channels_per_pair)?;
    section.number("shared_bytes_per_session", bytes, &mut limits.shared_bytes_per_session)?;
    section.number("shared_bytes_per_user", bytes, &mut limits.shared_bytes_per_user)?;
    section.number("connects_per_second", (1, 1_000_000), &mut limits.connects.per_second)?;
    section.number("connects_burst", (1, 1_000_000), &mut limits.connects.burst)?;
    read_shares(&section, &mut limits)?;
    Ok(limits)
}

/// What users and sealed programs may have of what there is.
fn read_shares(section: &Section<'_>, limits: &mut Limits) -> Result<(), ConfigError> {
    let counts = [
        ("ports_per_user", PORTS_MAX, &mut limits.ports_per_user),
        ("regions_per_user", REGIONS_MAX, &mut limits.regions_per_user),
        ("attachments_per_user", ATTACHMENTS_MAX, &mut limits.attachments_per_user),
        ("leases_per_user", LEASES_MAX, &mut limits.leases_per_user),
        ("channels_per_user", CHANNELS_MAX, &mut limits.channels_per_user),
        ("unread_descriptors_per_user", UNREAD_MAX, &mut limits.unread_descriptors_per_user),
    ];
    for (key, most, into) in counts {
        section.number(key, (1, most as u64), into)?;
    }
    let bytes = (SHARED_BYTES_MIN, SHARED_BYTES_MAX);
    section.number("unread_bytes_per_user", bytes, &mut limits.unread_bytes_per_user)?;
    section.number("sealed_percent", (1, 100), &mut limits.sealed_percent)?;
    section.number("reserve_percent", (1, 50), &mut limits.reserve_percent)
}

fn read_channel(field: &Field<'_>) -> Result<Channel, ConfigError> {
    let section = field.section(&["slots", "ring_bytes"])?;
    let mut channel = Channel::default();
    let rings = (u64::from(RING_BYTES_MIN), u64::from(RING_BYTES_MAX));
    section.number("slots", (1, SLOTS_MAX as u64), &mut channel.slots)?;
    section.number("ring_bytes", rings, &mut channel.ring_bytes)?;
    if let Some(ring) =
        section.field("ring_bytes").filter(|_| !channel.ring_bytes.is_power_of_two())
    {
        let near = channel.ring_bytes.next_power_of_two();
        let message = format!("{} is no power of two; {near} is", channel.ring_bytes);
        return Err(ring.fault(Fault::Value(message)));
    }
    Ok(channel)
}

fn read_delegated(field: &Field<'_>) -> Result<Delegated, ConfigError> {
    let section = field.section(&[
        "cores",
        "loops",
        "cache_bytes",
        "sessions",
        "sessions_per_user",
        "window_bytes",
        "operations_per_second",
        "bytes_per_second",
        "requests",
        "own_rings",
        "copy_around_bytes",
        "direct_from_bytes",
    ])?;
    let mut delegated = Delegated::default();
    section.number("loops", (1, LOOPS_MAX as u64), &mut delegated.loops)?;
    if let Some(cores) = section.field("cores") {
        let is_told = section.field("loops").is_some();
        (delegated.cores, delegated.loops) =
            read_cores(&cores, is_told.then_some(delegated.loops))?;
    }
    let bytes = (CACHE_BYTES_MIN, SHARED_BYTES_MAX);
    section.number("cache_bytes", bytes, &mut delegated.cache_bytes)?;
    let sessions = (0, delegated::SESSIONS_MAX as u64);
    section.number("sessions", sessions, &mut delegated.sessions)?;
    let of_user = (1, delegated::SESSIONS_MAX as u64);
    section.number("sessions_per_user", of_user, &mut delegated.sessions_per_user)?;
    let window = (CACHE_BYTES_MIN, delegated::WINDOW_BYTES_MAX);
    section.number("window_bytes", window, &mut delegated.window_bytes)?;
    let rate = (0, SHARED_BYTES_MAX);
    section.number("operations_per_second", rate, &mut delegated.operations_per_second)?;
    section.number("bytes_per_second", rate, &mut delegated.bytes_per_second)?;
    if let Some(requests) = section.field("requests") {
        let known = [("auto", Auto), ("io_uring", Uring), ("threads", Threads)];
        delegated.requests = requests.choice(&known)?;
    }
    if let Some(own_rings) = section.field("own_rings") {
        delegated.own_rings = own_rings.is_true()?;
    }
    let transfer = (0, delegated::TRANSFER_BYTES_MAX);
    let border = |name| section.field(name).map(|it| it.number(transfer)).transpose();
    delegated.copy_around_bytes = border("copy_around_bytes")?;
    delegated.direct_from_bytes = border("direct_from_bytes")?;
    Ok(delegated)
}

/// The kernel cores, each named once, and as many loops.
pub(super) fn read_cores(
    field: &Field<'_>,
    loops: Option<usize>,
) -> Result<(Vec<usize>, usize), ConfigError> {
    let list = field.list()?;
    let cores: Vec<usize> = list
        .iter()
        .map(|core| core.number((0, CORE_MAX)).map(|core| core as usize))
        .collect::<Result<_, _>>()?;
    let count = cores.len();
    let is_twice = cores
        .iter()
        .enumerate()
        .any(|(at, core)| cores.iter().skip(at + 1).any(|other| other == core));
    let wrong = match loops {
        _ if is_twice => Some("a core is named twice".to_owned()),
        _ if count > LOOPS_MAX => Some(format!("{count} cores, at most {LOOPS_MAX} are allowed")),
        Some(loops) if count > 0 && loops != count => {
            Some(format!("{count} cores for {loops} loops; each loop has one: leave `loops` out"))
        }
        _ => None,
    };
    match wrong {
        Some(message) => Err(field.fault(Fault::Value(message))),
        None => Ok((cores, if count > 0 { count } else { loops.unwrap_or(1) })),
    }
}

fn read_rules(field: &Field<'_>, names: &dyn Names) -> Result<Rules, ConfigError> {
    let list = field.list()?;
    if list.len() > RULES_MAX {
        let message = format!("{} rules, at most {RULES_MAX} are allowed", list.len());
        return Err(field.fault(Fault::Value(message)));
    }
    list.iter().map(|rule| read_rule(rule, names)).collect::<Result<_, _>>().map(Rules)
}

fn read_rule(field: &Field<'_>, names: &dyn Names) -> Result<Rule, ConfigError> {
    let section = field.section(&["action", "rights", "users", "groups", "names"])?;
    let actions = [("allow", Action::Allow), ("deny", Action::Deny)];
    Ok(Rule {
        action: section.required("action")?.choice(&actions)?,
        rights: each(&section, "rights", |right| right.choice(&Right::ALL))?,
        users: each(&section, "users", |user| read_id(user, "user", |name| names.user(name)))?,
        groups: each(&section, "groups", |group| {
            read_id(group, "group", |name| names.group(name))
        })?,
        names: each(&section, "names", read_pattern)?,
    })
}

/// Every element of a list that may be left out. A list that is there must not be empty: "for
/// nobody" and "for everybody" are too easily confused.
fn each<'a, T>(
    section: &Section<'a>,
    key: &str,
    read: impl Fn(&Field<'a>) -> Result<T, ConfigError>,
) -> Result<Vec<T>, ConfigError> {
    let Some(field) = section.field(key) else { return Ok(Vec::new()) };
    let list = field.list()?;
    if list.is_empty() {
        let message = "the list is empty; leave the key out to mean all".to_owned();
        return Err(field.fault(Fault::Value(message)));
    }
    list.iter().map(read).collect()
}

fn read_id(
    field: &Field<'_>,
    kind: &str,
    resolve: impl Fn(&str) -> Option<u32>,
) -> Result<u32, ConfigError> {
    if field.is_number() {
        // The largest number means "none" to the kernel.
        return field.number((0, u64::from(u32::MAX) - 1)).map(|number| number as u32);
    }
    let name = field.text()?;
    let unknown = || field.fault(Fault::Value(format!("no {kind} {name:?} on this machine")));
    resolve(name).ok_or_else(unknown)
}

fn read_pattern(field: &Field<'_>) -> Result<NamePattern, ConfigError> {
    let text = field.text()?;
    NamePattern::parse(text)
        .map_err(|error| field.fault(Fault::Value(format!("{text:?}: {error}"))))
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
