//! The network service: when it carries connections to remote peers, and where its loops run.

use super::error::ConfigError;
use super::field::Field;
use super::read::read_cores;
use super::LOOPS_MAX;

/// When connections are carried.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum When {
    /// Where the measured rule says that it pays.
    #[default]
    Auto,
    /// Wherever it can be done.
    Always,
    /// Not at all.
    Never,
}

/// The network service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Network {
    /// When connections to remote peers are carried.
    pub delegate: When,
    /// Kernel cores: one loop has each for itself. Without any the loops share the cores with
    /// everybody, and sleep sooner.
    pub cores: Vec<usize>,
    /// Loops; as many as `cores` where there are any.
    pub loops: usize,
    /// Connections that all loops carry at most, and a user half of them; each has two descriptors of the
    /// control plane.
    pub connections: usize,
}

/// More would have more descriptors than a process may open on Linux as it is delivered.
const CONNECTIONS_MAX: u64 = 1 << 18;

impl Default for Network {
    fn default() -> Self {
        Self { delegate: When::Auto, cores: Vec::new(), loops: 1, connections: 16384 }
    }
}

impl Network {
    /// From the table `[network]`.
    pub(super) fn read(field: &Field<'_>) -> Result<Network, ConfigError> {
        let section = field.section(&["delegate", "cores", "loops", "connections"])?;
        let mut network = Network::default();
        if let Some(delegate) = section.field("delegate") {
            let words = [("auto", When::Auto), ("always", When::Always), ("never", When::Never)];
            network.delegate = delegate.choice(&words)?;
        }
        section.number("loops", (1, LOOPS_MAX as u64), &mut network.loops)?;
        if let Some(cores) = section.field("cores") {
            let is_told = section.field("loops").is_some();
            (network.cores, network.loops) = read_cores(&cores, is_told.then_some(network.loops))?;
        }
        section.number("connections", (1, CONNECTIONS_MAX), &mut network.connections)?;
        Ok(network)
    }
}
