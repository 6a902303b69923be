"""What libpandostore has to reach beside other engines, and whether it did.

A repetition measures all engines one after the other; a ratio is taken within it, against the best
of the peers that are named, and the median of the ratios is held against the limit. `cpu` compares
operations per second of processor time, which means something on a machine with other work, too;
where the device is what is waited for, it is the time by the clock.
"""

import dataclasses
import statistics

LMDB = ("lmdb", "lmdb-writemap")
GETS = ("get", "get_kept")


@dataclasses.dataclass(frozen=True)
class Target:
    text: str
    set: str
    workloads: tuple  # of Pando's; several: their time is added up
    peers: tuple
    peer_workloads: tuple  # the best of these counts; (): as Pando's
    metric: str  # cpu, wall: a rate; file: bytes; p99: of the reads
    limit: float
    least: bool = True  # the limit is the least that is right, else the most


def rate(text, of, workload, peers, limit, peer_workloads=(), metric="cpu"):
    workloads = workload if isinstance(workload, tuple) else (workload,)
    return Target(text, of, workloads, peers, peer_workloads, metric, limit)


TARGETS = (
    rate("point read", "random", "get", LMDB, 2.0, GETS),
    rate("16 point reads at once", "random", "get_many", LMDB, 4.5, (*GETS, "get_many")),
    rate("point read, zipf, 1 KB", "article", "read_zipf", LMDB, 2.2),
    rate("2 readers beside a writer", "threads", "readers_and_writer", LMDB, 1.8),
    Target("p99 of readers: with writer / without", "threads", ("readers_and_writer",), ("pando",),
           ("readers",), "p99", 1.2, False),
    rate("scan 100 from a random key", "random", "scan_100", LMDB, 1.3),
    rate("scan 10 from a random key", "random", "scan_10", LMDB, 1.5),
    rate("one key per commit, device", "random", "put_one_synced", LMDB, 2.5, metric="wall"),
    rate("one key per commit, device, beside a bare 4 KiB append", "random", "put_one_synced",
         ("bare",), 0.85, metric="wall"),
    rate("one key per commit, device, 8 threads", "threads", "writers_synced", LMDB, 5.0,
         metric="wall"),
    rate("one key per commit, operating system", "random", "put_one", LMDB, 5.0),
    rate("1,000 keys per commit, operating system", "random", "put_batch", LMDB, 2.5),
    rate("1,000 keys per commit, operating system", "random", "put_batch", ("rocksdb",), 1.2),
    rate("load in random order", "random", ("load", "settle"), LMDB, 2.5),
    rate("load in random order", "random", ("load", "settle"), ("rocksdb",), 1.1),
    rate("load in order", "ordered", ("load", "settle"), LMDB, 1.2),
    Target("file after a random load, a checkpoint, and trimming", "random", ("trim",), LMDB,
           ("settle",), "file", 0.85, False),
    Target("file after compaction", "random", ("compact",), LMDB, ("put_one_synced",), "file", 0.65,
           False),
)


def figure(rows, workloads, metric):
    """The figure that `rows` ({workload: row} of an engine) give; None: not measured."""
    if not all(name in rows for name in workloads):
        return None
    if metric == "file":
        return rows[workloads[-1]]["file_bytes"]
    if metric == "p99":
        return rows[workloads[-1]].get("p99_us")
    time = sum(rows[name]["cpu" if metric == "cpu" else "seconds"] for name in workloads)
    return rows[workloads[0]]["ops"] / time if time > 0 else None


def ratios(rows, target, peers):
    """Pando's figure / that of the best of some peers, for each repetition that has both."""
    groups = {}
    for row in rows:
        if row["set"] == target.set:
            key = (row["repetition"], row["engine"])
            groups.setdefault(key, {})[row["workload"]] = row
    found = []
    for repetition in sorted({key[0] for key in groups}):
        own = figure(groups.get((repetition, "pando"), {}), target.workloads, target.metric)
        choices = [(name,) for name in target.peer_workloads] or [target.workloads]
        theirs = [figure(groups.get((repetition, peer), {}), choice, target.metric)
                  for peer in peers for choice in choices]
        theirs = [value for value in theirs if value]
        if own and theirs:
            best = max(theirs) if target.metric in ("cpu", "wall") else min(theirs)
            found.append(own / best)
    return found


def judge(rows):
    """A list of (target, ratios, median, reached, {peer: median}); not measured: median None."""
    verdicts = []
    for target in TARGETS:
        found = ratios(rows, target, target.peers)
        each = {peer: ratios(rows, target, (peer,)) for peer in target.peers}
        each = {peer: statistics.median(values) for peer, values in each.items() if values}
        median = reached = None
        if found:
            median = statistics.median(found)
            reached = median >= target.limit if target.least else median <= target.limit
        verdicts.append((target, found, median, reached, each))
    return verdicts
