//! What the command line says of shared listeners.

use std::ffi::OsString;
use std::net::SocketAddr;

use clap::{Args, Subcommand};
use heliostat_abi::listener::limits::{DEADLINE_MS_MAX, PEEK_BYTES_MAX};
use heliostat_abi::listener::rule::Peek;
use heliostat_abi::listener::Rule;

use super::{ControlPlace, Format};

/// What can be done with shared listeners.
#[derive(Subcommand, Clone, Debug)]
pub enum ListenerCommand {
    /// Show those that you may see: addresses, rules, how many workers and connections.
    List(Format),
    /// Show the workers of one: their load, what they were given, what became of it.
    Inspect {
        /// Where it listens.
        address: SocketAddr,
        #[command(flatten)]
        format: Format,
    },
    /// Make one that stays without workers: the control plane opens its address.
    Create(RuleArguments),
    /// End one: its workers go on with its listening socket.
    Remove {
        /// Where it listens.
        address: SocketAddr,
        #[command(flatten)]
        place: ControlPlace,
    },
    /// Give a worker nothing more, and others what it has not taken.
    Drain {
        /// Which, as inspect shows it.
        worker: String,
        /// Give to it again.
        #[arg(long)]
        back: bool,
        #[command(flatten)]
        place: ControlPlace,
    },
    /// Change the rule, for connections to come.
    Rule(RuleArguments),
    /// Ask a program about each connection (docs/listeners.md), as long as it runs.
    Plugin {
        #[command(flatten)]
        rule: PluginArguments,
        /// The program and its arguments; its standard input is the socket that it is asked by.
        #[arg(last = true, required = true, value_name = "PROGRAM")]
        program: Vec<OsString>,
    },
}

/// A rule for an address.
#[derive(Args, Clone, Debug)]
pub struct RuleArguments {
    /// Where it listens.
    pub address: SocketAddr,
    /// least-load, round-robin, address, content or plugin.
    #[arg(long, value_parser = parse_rule, default_value = "least-load")]
    pub rule: Rule,
    #[command(flatten)]
    pub peek: PeekArguments,
    #[command(flatten)]
    pub place: ControlPlace,
}

/// The address whose connections a plug-in is asked about.
#[derive(Args, Clone, Debug)]
pub struct PluginArguments {
    /// Where it listens.
    pub address: SocketAddr,
    #[command(flatten)]
    pub peek: PeekArguments,
    #[command(flatten)]
    pub place: ControlPlace,
}

/// How much of a connection is looked at.
#[derive(Args, Clone, Copy, Debug)]
pub struct PeekArguments {
    /// First bytes that rules content and plugin look at.
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=i64::from(PEEK_BYTES_MAX)))]
    pub bytes: Option<u32>,
    /// How long a silent client, or the plug-in, is waited for.
    #[arg(long, value_name = "MS",
          value_parser = clap::value_parser!(u32).range(1..=i64::from(DEADLINE_MS_MAX)))]
    pub deadline_ms: Option<u32>,
}

impl PeekArguments {
    /// The rule with these numbers.
    pub fn of(self, rule: Rule) -> Rule {
        let usual = match rule {
            Rule::Content(peek) | Rule::Plugin(peek) => peek,
            _ => Peek::USUAL,
        };
        let bytes_max = self.bytes.unwrap_or(usual.bytes_max);
        let deadline_ms = self.deadline_ms.unwrap_or(usual.deadline_ms);
        rule.with(Peek { bytes_max, deadline_ms })
    }
}

/// The rule of this name.
pub fn parse_rule(text: &str) -> Result<Rule, String> {
    let names = Rule::ALL.map(Rule::name).join(", ");
    Rule::parse(text).ok_or_else(|| format!("it is one of {names}"))
}

/// `PORT[:RULE]` of `run --share`.
pub fn parse_share(text: &str) -> Result<String, String> {
    let (port, rule) = text.split_once(':').unwrap_or((text, Rule::LeastLoad.name()));
    match port.parse::<u16>() {
        Ok(0) | Err(_) => Err(format!("{port} is no port")),
        Ok(_) => parse_rule(rule).map(|_| text.to_owned()),
    }
}
