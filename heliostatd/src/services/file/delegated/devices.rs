//! Devices as people see them: what was measured, the threshold in force, and why it is that.

use heliostat_server_file::{
    Basis, Device, COPYING_FROM, DIRECT_FROM_MAX, DIRECT_FROM_MIN, FILE_BYTES_MIN, FULL_FROM, NEVER,
};
use rustix::fs::{major, minor};
use serde_json::{json, Value};

use crate::state::file::delegated::Delegated;

impl Delegated {
    /// Every device that files were opened on.
    pub(super) fn devices_json(&self) -> Value {
        let devices = self.shared.devices.all();
        Value::Array(devices.iter().map(|device| device_json(device)).collect())
    }
}

fn device_json(device: &Device) -> Value {
    let basis = device.basis();
    let mut shown = json!({
        "device": number_text(device.number),
        "direct_from_bytes": bytes_json(device.measured()),
        "node": device.node,
        "in_force_bytes": bytes_json(device.direct_from(false, false)),
        "in_force_copying_bytes": bytes_json(device.direct_from(true, false)),
        "in_force_far_bytes": bytes_json(device.direct_from(false, true)),
        "is_full": device.is_full(),
        "under_way": device.under_way(),
        "why": why(&basis),
    });
    if let (Basis::Measured(measured), Some(shown)) = (&basis, shown.as_object_mut()) {
        let samples = measured.samples.iter().map(|it| {
            json!({
                "bytes": it.bytes, "direct_ns": it.direct_ns, "filled_ns": it.filled_ns,
                "times": it.times,
            })
        });
        shown.insert("measured".into(), samples.collect());
        shown.insert("measured_ns".into(), json!(measured.cost.ns));
        shown.insert("measured_bytes".into(), json!(measured.cost.bytes));
    }
    shown
}

fn why(basis: &Basis) -> String {
    let fixed = "the fixed threshold";
    match basis {
        Basis::Configured => "configured: direct_from_bytes".into(),
        Basis::Measured(_) => "measured".into(),
        Basis::Measuring(_) => format!("{fixed}: it is being measured"),
        Basis::Unmeasured(tries, Some(why)) => format!("{fixed}: {why} ({tries} tried)"),
        Basis::Unmeasured(_, None) => {
            let mib = FILE_BYTES_MIN >> 20;
            format!(
                "{fixed}: no file of {mib} MiB and more was opened yet that a lease vouches for"
            )
        }
        Basis::Fixed(why) => format!("{fixed}: {why}"),
    }
}

/// A threshold; null for never.
fn bytes_json(bytes: u64) -> Value {
    if bytes == NEVER {
        Value::Null
    } else {
        json!(bytes)
    }
}

/// A device's number as the kernel writes it.
pub(super) fn number_text(number: Option<u64>) -> String {
    number.map_or("others".into(), |number| format!("{}:{}", major(number), minor(number)))
}

/// The rule by which loads shift a threshold.
pub(super) fn load_rule() -> Value {
    json!({
        "full_from_reads": FULL_FROM,
        "copying_from_percent": COPYING_FROM,
        "direct_from_bytes_min": DIRECT_FROM_MIN,
        "direct_from_bytes_max": DIRECT_FROM_MAX,
    })
}
