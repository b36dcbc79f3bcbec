//! Whether having loops carry connections to remote peers pays on this machine.

use heliostat_backend_tcp::{measure, Facts, Verdict};
use heliostat_base::affinity;

use super::Check;

/// Measures, and says what the rule makes of it.
pub fn check() -> Check {
    let name = "network service";
    let measured = match measure() {
        Ok(measured) => measured,
        Err(error) => return Check::ok(name, format!("off: it cannot be measured: {error}")),
    };
    let cores = affinity::cpu_count() as u64;
    let verdict = Facts { cores, kernel_cores: 0, measured: Some(measured) }.judge();
    let state = if verdict == Verdict::Pays { "on" } else { "off" };
    let (stack, line) = (measured.stack_ns, measured.line_ns);
    let facts =
        format!("{cores} cores; a message by TCP {stack} ns, a line between cores {line} ns");
    Check::ok(name, format!("{state} unless configured: {} ({facts})", verdict.text()))
}
