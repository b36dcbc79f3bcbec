"""Cores parted, against plain Linux: servers with remote peers (another network namespace), and TPC-H's queries.

Each workload runs plainly, under Heliostat with nothing parted, and under Heliostat with each partition that
`heliostat cores --auto` would try here; servers also with their connections carried by loops of the network service on
the kernel cores. What the rule keeps of the partitions may not be worse than 0.95 of plain Linux; the best of all, and
what each costs, stands beside it. What is not installed is, where that is allowed; a workload that lacks something is
skipped, and says so. HELIOSTAT_ONLY picks workloads by a part of a name, HELIOSTAT_PARTITIONS partitions by their whole
names, with semicolons between them. Draws target/bench/cores.png.
"""

from __future__ import annotations

import functools
import os
import statistics
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Callable

from far_clients import FarClients
from heliostat_run import ROOT, Harness, Side
from measure import IS_BUILT, REPORT, Bench, Result
from pictures import cores as picture
from remote.databases import POSTGRES_USER, duckdb, postgres
from remote.servers import apache, httperf, nginx, redis, wrk
from remote.work import COVERED, PLAIN, Far, Run, Workload, is_there

CLIENTS = {"redis-benchmark", "wrk", "httperf"}
# A database is filled while nothing runs under Heliostat, and its user could start no control plane here.
LASTING = "[daemon]\nidle_exit_s = 3600\n"
PACKAGES = ["httperf", "apache2", "postgresql"]
AIM_KEPT = 0.95
# As the command line's rule: none wins ties, and keeps what falls behind in no round.
GAIN_LEAST = 0.02
# Of TPC-H's tables; HELIOSTAT_TPCH_SCALE overrides it. A round in PostgreSQL takes some ten seconds.
SCALE = {True: 0.01, False: 0.1}
# What the best partition is to reach on sixteen cores, by how a workload's name begins.
AIMS, AIM_CORES = {"httperf": 1.43, "TPC-H": 1.2}, 16


def partitions() -> dict[str, list[str]]:
    """What is tried: as `--auto`, kernel cores up to a quarter of the machine, packed and spread, and where interrupts can be moved with a core for them."""
    cores = len(os.sched_getaffinity(0))
    found = {"none": ["reset"]}
    for count in range(1, max(1, min(8, cores // 4)) + 1):
        found[f"kernel {count}"] = ["--kernel", str(count)]
        if count > 1:
            found[f"kernel {count}, spread"] = ["--kernel", str(count), "--spread"]
        # Applications keep a core.
        if moves_interrupts() and cores > count + 1:
            layouts = {name: words for name, words in found.items() if words[1:2] == [str(count)]}
            found |= {f"{name}, interrupt 1": [*words, "--interrupt", "1"] for name, words in layouts.items()}
    picked = os.environ.get("HELIOSTAT_PARTITIONS", ";".join(found)).split(";")
    if unknown := set(picked) - set(found):
        raise RuntimeError(f"no partition {', '.join(unknown)} on {cores} cores; there are {'; '.join(found)}")
    return {name: words for name, words in found.items() if name == "none" or cores > 1 and name in picked}


@functools.cache
def moves_interrupts() -> bool:
    """As `heliostat cores` tells it: by the first interrupt that has a place."""
    places = sorted(Path("/proc/irq").glob("*/smp_affinity_list"), key=lambda place: int(place.parent.name))
    return bool(places) and os.access(places[0], os.W_OK)


def aim_of(work: Workload) -> float | None:
    """What the best partition of a workload is to reach on this machine, if anything."""
    if work.aim is not None or len(os.sched_getaffinity(0)) < AIM_CORES:
        return work.aim
    return next((aim for begin, aim in AIMS.items() if work.name.startswith(begin)), None)


def carried() -> dict[str, tuple[list[str], Run]]:
    """Partitions with a loop of the network service on each kernel core."""
    arms = {name: words for name, words in partitions().items() if words != ["reset"] and "--interrupt" not in words}
    return {f"{name}, carried": (words, Run(Side.HELIOSTAT, ("--network-cores", words[1]))) for name, words in arms.items()}


def start_all(bench: Bench, work: Workload) -> dict[str, tuple[Run, object, list[str]]]:
    """What is compared: how it is run, its server, and how cores are parted."""
    arms = {"plain": (PLAIN, work.start(PLAIN), ["reset"])}
    if bench.harness.plain:
        return arms
    server = work.start(COVERED)
    arms |= {name: (COVERED, server, words) for name, words in partitions().items()}
    for name, (words, run) in carried().items() if work.is_carried else ():
        bench.harness.call("cores", *words)  # its loops are on the kernel cores that there are when it starts
        arms[name] = (run, work.start(run), words)
        bench.harness.call("cores", "reset")
    return arms


def summed(results: list[Result], names: list[str], called: str, end: str, fold: Callable, aim: float | None = None) -> list[Result]:
    """One result for several workloads: of the ratios of their rows with that end."""
    rows = [row for row in results if row.name in [f"{name}: {end}" for name in names]]
    if len(rows) < 2:
        return []
    ratios = [row.ratio for row in rows]
    note = f"{called}: {fold.__name__.replace('_', ' ')} of {len(rows)} workloads"
    spread = {"theirs": [1.0, 1.0], "ratios": [min(ratios), max(ratios)]}
    return [Result(f"{called}: {end}", None, None, "", fold(ratios), aim, "ratio at least", spread, rows[0].cores, note)]


def summaries(results: list[Result], names: list[str]) -> list[Result]:
    """What the workloads with remote peers have in common, if each client was there, and TPC-H's."""
    queries = [name for name in names if name.startswith("TPC-H")]
    peers = [name for name in names if name not in queries]
    if {name.split()[0] for name in peers} != CLIENTS:
        peers = []
    return [
        *summed(results, peers, "remote clients", "kept by the rule", min, AIM_KEPT),
        *summed(results, peers, "remote clients", "best partition", statistics.geometric_mean),
        *summed(results, queries, "TPC-H's queries", "kept by the rule", min, AIM_KEPT),
    ]


def handed(bench: Bench) -> int:
    """How many connections the loops of the network service were given until now."""
    return sum(loop["handed"] for loop in bench.harness.status()["network"]["loops"])


def measure_one(bench: Bench, work: Workload, drawn: dict) -> list[Result]:
    """Plain Linux and every partition by turns; `drawn` gets all samples."""

    def sample(arm: tuple[Run, object, list[str]]) -> float:
        run, server, words = arm
        if bench.harness.plain:
            return work.sample(run, server)
        bench.harness.call("cores", *words)
        if server is not None and run is not PLAIN and not bench.harness.status()["sessions"]:
            raise RuntimeError(f"{work.name}: the server is not under Heliostat")
        before = handed(bench) if run.flags else 0
        figure = work.sample(run, server)
        if run.flags and handed(bench) == before:
            raise RuntimeError(f"{work.name}: no connection was carried with {' '.join(run.flags)}")
        return figure

    before = len(bench.harness.programs)
    rounds = bench.alternate(start_all(bench, work), sample)
    for server in bench.harness.programs[before:]:
        server.kill()
        server.process.wait()
    drawn[work.name] = dict(rounds)
    plain = rounds.pop("plain")
    if not rounds:
        return [bench.compare(work.name, [], plain, work.unit)]
    kept = keeps({name: rounds[name] for name in partitions()})
    told = [f"{name} {statistics.median(all):,.0f} (x{statistics.median(all) / statistics.median(plain):.2f})" for name, all in rounds.items()]
    print(f"  {work.name}: kept {kept}; {', '.join(told)}, plain {statistics.median(plain):,.0f} {work.unit}", flush=True)
    cores = f"{len(os.sched_getaffinity(0))} cores"
    about = f", {work.about}" if work.about else ""
    rows = [bench.compare(f"{work.name}: kept by the rule", rounds[kept], plain, work.unit, aim=AIM_KEPT, cores=cores, note=f"{work.name}{about}: the rule keeps {kept}")]
    if parted := [name for name in rounds if name != "none"]:
        best = max(parted, key=lambda name: statistics.median(rounds[name]))
        rows.append(bench.compare(f"{work.name}: best partition", rounds[best], plain, work.unit, aim=aim_of(work), cores=cores, note=f"{work.name}{about}: best is {best}"))
    return rows + [bench.compare(f"{work.name}: {name}", all, plain, work.unit, cores=cores) for name, all in rounds.items()]


def keeps(rounds: dict[str, list[float]]) -> str:
    """Which partition the rule keeps, as `heliostat cores --auto` judges."""
    none = rounds["none"]
    middle = statistics.median(none)
    margin = max(GAIN_LEAST, (max(none) - min(none)) / 2 / middle)
    fits = {
        name: statistics.median(all)
        for name, all in rounds.items()
        if statistics.median(all) > (1 + margin) * middle and min(all) >= AIM_KEPT * middle
    }
    return max(fits, key=fits.get) if fits else "none"


def workloads(far: Far) -> list[tuple[str, list[str], Callable[[], Workload]]]:
    """What is measured: its name, what it needs, and what prepares it."""
    scale = float(os.environ.get("HELIOSTAT_TPCH_SCALE", SCALE[far.bench.quick]))
    web = [("nginx", "nginx", nginx(far)), ("Apache", "apache2", apache(far))]
    loads = [(wrk, "wrk"), (httperf, "httperf")]
    return [
        *((f"redis, pipeline {deep}", ["redis-server", "redis-benchmark"], functools.partial(redis, far, 50, deep)) for deep in (1, 16)),
        *((f"{client} on {name}", [server, client], functools.partial(load, far, name, start)) for name, server, start in web for load, client in loads),
        ("DuckDB, TPC-H", ["module duckdb"], functools.partial(duckdb, far, scale)),
        ("PostgreSQL, TPC-H", ["postgres", "psql", f"user {POSTGRES_USER}", "module duckdb"], functools.partial(postgres, far, scale)),
    ]


def install() -> None:
    """Installs what is missing, where that is allowed; nothing starts by it."""
    if IS_BUILT:
        return
    setup = [str(ROOT / "verify/setup.sh"), *PACKAGES]
    if subprocess.run(setup, env={**os.environ, "RUNLEVEL": "1"}, check=False).returncode != 0:
        print("  not everything could be installed", flush=True)


def measure(bench: Bench) -> list[Result]:
    install()
    with Harness(plain=bench.harness.plain, configuration=LASTING) as harness:
        return measure_all(replace(bench, harness=harness))


def measure_all(bench: Bench) -> list[Result]:
    results, drawn = [], {}
    only = os.environ.get("HELIOSTAT_ONLY", "")
    with FarClients() as clients:
        for name, needs, make in workloads(Far(bench, clients)):
            if only.lower() not in name.lower():
                continue
            missing = [need for need in needs if not is_there(need)]
            if missing:
                print(f"  {name} is skipped: {', '.join(missing)} is not installed", flush=True)
                continue
            results += measure_one(bench, make(), drawn)
    if drawn and not bench.harness.plain:
        picture.draw(drawn, REPORT / "cores.png")
    return results if only else summaries(results, list(drawn)) + results
