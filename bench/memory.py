"""More data than memory: hot keys beside cold ones, with disk-reads pool and inline.

The server runs in a control group (version 1) with a memory limit of a quarter of the values. Two
load generators run at once: one asks for the first fiftieth of the keys, which stay in memory, one
for all of them. `inline` reads cold keys on the I/O thread, where hot ones wait behind them.
"""

import contextlib
import os
import pathlib
import threading

import peers

VALUE, CONNECTIONS = 1000, 25
MODES = ("pool", "inline")


@contextlib.contextmanager
def limited(limit):
    """A function that puts the calling process into a group with this limit, for the server."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            group = pathlib.Path(f"/sys/fs/cgroup/memory{path}/pando-bench-{os.getpid()}")
            group.mkdir()
            (group / "memory.limit_in_bytes").write_text(str(limit))
            try:
                yield lambda: (group / "cgroup.procs").write_text(str(os.getpid()))
            finally:
                group.rmdir()
            return
    raise SystemExit("the section `memory` needs a control group (version 1) for memory")


def run_both(load, server, plan, seed):
    """Results of the two load generators, at the same time."""
    results = {}

    def run(name, keys, seed):
        results[name] = load.run(
            server, keys=keys, value=VALUE, connections=CONNECTIONS, gets=1, sets=0,
            seconds=plan.memory_seconds, warmup=plan.memory_seconds / 2, seed=seed,
        )

    cases = (("hot", plan.memory_keys // 50), ("cold", plan.memory_keys))
    threads = [threading.Thread(target=run, args=(*case, seed + i)) for i, case in enumerate(cases)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def compare(plan, load, both, scratch, say):
    """A list of {mode, keys, repetition, ...results}."""
    rows = []
    with limited(plan.memory_keys * VALUE // 4) as join:
        server = peers.Server(both["pando"], "everysec", scratch / "memory", before=join)
        try:
            server.wait_ready()
            load.run(server, fill=True, keys=plan.memory_keys, value=VALUE, pipeline=64)
            server.checkpoint()
            say("more data than memory: filled")
            for repetition in range(plan.repetitions):
                for mode in MODES if repetition % 2 == 0 else MODES[::-1]:
                    server.ask("CONFIG", "SET", "disk-reads", mode)
                    for keys, result in run_both(load, server, plan, repetition + 1).items():
                        row = {"mode": mode, "keys": keys, "repetition": repetition}
                        rows.append({**row, **result})
        finally:
            server.kill()
    say("more data than memory: done")
    return rows
