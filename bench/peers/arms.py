"""The arms of the comparison by name: which classes, with which settings, where they make sense."""

from __future__ import annotations

import importlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Arm:
    """One way to give another process versions of an array. Classes are "module:Class"."""

    producer: str
    consumer: str
    settings: str
    # Only where every byte is written: its memory comes empty with each step.
    only_whole: bool = False
    # The producer starts the consumer's process itself.
    starts_consumer: bool = False

    def load(self, path: str):
        """The class; imports what the arm needs and nothing else."""
        module, name = path.split(":")
        return getattr(importlib.import_module(module), name)

    def has_consumer(self) -> bool:
        """Whether a consumer answers for itself."""
        return self.consumer not in ("", self.producer)


HELIOSTAT = "defaults: probed engine, keep the newest, 4 colours"
SST = "2.12 wheel, WAN data plane (TCP; it has no other), queue of 1, discard, deferred puts"
ICEORYX2 = "0.10 wheel, buffer of 1, safe overflow, static allocation, event service"
RAY = "2.60 wheel, local cluster, store of 5 arrays, no dashboard, zero-copy get in an actor"

ARMS = {
    "nothing": Arm("arm_memory:Nothing", "", "the writes alone"),
    "heliostat": Arm("arm_heliostat:Publisher", "arm_heliostat:Follower", HELIOSTAT),
    "memcpy + lock": Arm(
        "arm_memory:Copier", "arm_memory:Locked", "copy into SharedMemory, read there, one flock"
    ),
    "shared_memory": Arm(
        "arm_memory:Copier", "arm_memory:Copied", "copy into SharedMemory and out again, one flock"
    ),
    "fork": Arm("arm_memory:Forked", "arm_memory:Forked", "os.fork; the child reads and ends"),
    "fork held": Arm(
        "arm_memory:ForkedAndHeld", "arm_memory:ForkedAndHeld", "the child lives until the next"
    ),
    "ADIOS2 SST": Arm("arm_adios2:Writer", "arm_adios2:Reader", SST),
    "ADIOS2 Heliostat": Arm(
        "arm_adios2:PluginWriter", "arm_adios2:PluginReader", "heliostat.adios2, in place, deferred"
    ),
    "iceoryx2 copy": Arm(
        "arm_iceoryx2:Copier", "arm_iceoryx2:Subscriber", ICEORYX2
    ),
    "iceoryx2 loan": Arm(
        "arm_iceoryx2:Lender", "arm_iceoryx2:Subscriber", ICEORYX2, only_whole=True
    ),
    "Ray": Arm("arm_ray:Putter", "arm_ray:Offers", RAY, starts_consumer=True),
}
