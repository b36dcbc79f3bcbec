//! What sessions and people are told of the cores.

use heliostat_abi::cores::{CoresState, CpuMask, Means};
use heliostat_abi::name::ObjectId;
use heliostat_service_cores::{Applied, Partition};
use serde_json::{json, Value};

use crate::daemon::Daemon;

impl Daemon {
    /// How cores are parted now.
    pub(super) fn cores_state(&self) -> CoresState {
        let (all, partition, applied) = self.cores_now();
        let small = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
        CoresState {
            generation: self.services.cores.generation,
            means: applied.means,
            interrupts_moved: small(applied.interrupts_moved),
            interrupts_refused: small(applied.interrupts_refused),
            left: small(applied.left),
            placed: u32::try_from(applied.placed).unwrap_or(u32::MAX),
            all,
            application: partition.application,
            kernel: partition.kernel,
            interrupt: partition.interrupt,
        }
    }

    fn cores_now(&self) -> (CpuMask, Partition, Applied) {
        self.services.cores.parted.unwrap_or_else(|| {
            let all = self.cores_all();
            (all, Partition::none(all), Applied::default())
        })
    }

    pub(super) fn cores_json(&self) -> Value {
        let (all, partition, applied) = self.cores_now();
        let cores = &self.services.cores;
        let recovered = cores.recovered.map(|undone| {
            json!({
                "threads": undone.threads,
                "interrupts": undone.interrupts,
                "groups": undone.groups,
                "refused": undone.refused,
                "unreadable": undone.unreadable.map(|error| error.to_string()),
            })
        });
        json!({
            "generation": cores.generation,
            "is_parted": cores.parted.is_some(),
            "all": all.to_string(),
            "application": partition.application.to_string(),
            "kernel": partition.kernel.to_string(),
            "interrupt": partition.interrupt.to_string(),
            "means": means_words(applied.means),
            "placed": applied.placed,
            "left": applied.left,
            "interrupts_moved": applied.interrupts_moved,
            "interrupts_refused": applied.interrupts_refused,
            "failed": cores.failed,
            "recovered": recovered,
            "not_undone": cores.refused,
        })
    }

    /// What parting means for a process; nothing where cores are not parted.
    pub(super) fn cores_of_json(&self, sessions: &[ObjectId]) -> Option<Value> {
        let (all, partition, applied) = self.services.cores.parted?;
        let pid = sessions.iter().find_map(|id| Some(self.connections.get(*id)?.peer.pid))?;
        let path = format!("/proc/{pid}/status");
        let status = std::fs::read_to_string(path).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        let mask = CpuMask::parse(line.unwrap_or_default().trim()).ok()?;
        let mask = mask.intersection(&all);
        Some(json!({
            "runs_on": mask.to_string(),
            "place": place_word(&mask, &partition, &all),
            "partition": partition.to_string(),
            "means": means_words(applied.means),
        }))
    }

    pub(super) fn cores_gauges(&self) -> Vec<(&'static str, &'static str, u64)> {
        let (_, partition, applied) = self.cores_now();
        vec![
            (
                "kernel_cores",
                "Cores that server loops have for themselves",
                partition.kernel.count() as u64,
            ),
            (
                "interrupt_cores",
                "Cores that interrupts were moved to",
                partition.interrupt.count() as u64,
            ),
            ("placed_threads", "Threads that were placed on their cores", applied.placed as u64),
        ]
    }
}

fn place_word(mask: &CpuMask, partition: &Partition, all: &CpuMask) -> &'static str {
    match mask {
        mask if *mask == partition.application => "application",
        mask if *mask == partition.kernel => "kernel",
        mask if mask == all => "anywhere",
        _ => "its own",
    }
}

fn means_words(means: Means) -> Vec<&'static str> {
    let words = [
        (means.cpusets, "cpusets"),
        (means.masks, "affinity masks"),
        (means.interrupts, "interrupts"),
    ];
    words.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect()
}
