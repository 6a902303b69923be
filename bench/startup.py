"""Start-up after kill -9: what it takes, and what it depends on.

Pando is started with different amounts of log since the last checkpoint, over two sizes of data;
redis-server loads the same data from its RDB file and from its append-only file. Time counts from
before fork and exec to the first PONG, and to the value of a known key.
"""

import re
import time

import peers

KNOWN = 4711  # a key that every data set has
RECOVERED = re.compile(r"\(([0-9]+) operations\) from log positions? ([0-9]+) to ([0-9]+)")


def start(peer, level, directory, arguments=()):
    """Starts on what is in the directory; the running server and what was measured."""
    server = peers.Server(peer, level, directory, arguments)
    ready = server.wait_ready()
    name = f"{KNOWN:012d}"
    value = server.ask("GET", f"key:{name}")
    got = time.monotonic() - server.started
    if not value.startswith(name):
        raise SystemExit(f"{peer.name}: key:{name} is {value!r} after the start")
    row = {"ping_s": ready, "get_s": got, "cpu_s": server.cpu()}
    if peer.name == "pando":
        recovered = RECOVERED.findall(server.messages())
        if not recovered:
            raise SystemExit(f"the start-up line is missing in {server.log.name}")
        operations, begin, end = (int(n) for n in recovered[-1])
        row.update(replayed=operations, log_bytes=end - begin)
    return server, row


def size_of(directory, *patterns):
    return sum(f.stat().st_size for p in patterns for f in directory.rglob(p))


def dbsize(server, keys):
    reply = server.ask("DBSIZE")
    if reply != f":{keys}":
        raise SystemExit(f"{server.peer.name}: DBSIZE is {reply} after the start, not {keys}")


def pando(plan, load, peer, directory, keys):
    """Rows for each amount of log: SAVE, so many writes, kill -9, start."""
    rows = []
    by_hand = ["--max-recovery-time", "3600000"]
    server = peers.Server(peer, "everysec", directory)
    server.wait_ready()
    load.fill(server, keys)
    for repetition in range(plan.repetitions):
        # With the default settings: killed in the middle of writing.
        load.run(server, keys=keys, gets=0, sets=1, pipeline=64, seconds=plan.seconds)
        server.kill()
        server, row = start(peer, "everysec", directory)
        rows.append({"log": "default settings", **row})
        dbsize(server, keys)
        server.kill()
        server, _ = start(peer, "everysec", directory, by_hand)
        for writes in plan.logs:
            server.checkpoint()
            if writes:
                load.run(server, keys=keys, gets=0, sets=1, pipeline=64, requests=writes)
            server.kill()
            server, row = start(peer, "everysec", directory, by_hand)
            rows.append({"log": f"{writes:,} writes", **row})
        dbsize(server, keys)
        server.kill()
        server, _ = start(peer, "everysec", directory)
        for row in rows[-1 - len(plan.logs) :]:
            row.update(peer="pando", keys=keys, repetition=repetition)
            row["data_bytes"] = size_of(directory, "pando.db")
    server.kill()
    return rows


def redis(plan, load, peer, directory, keys, level):
    rows = []
    server = peers.Server(peer, level, directory)
    server.wait_ready()
    load.fill(server, keys)
    if level == "rdb":
        server.checkpoint()
    deadline = time.monotonic() + peers.LIMIT
    while server.info("aof_rewrite_in_progress") != "0" and time.monotonic() < deadline:
        time.sleep(0.1)
    for repetition in range(plan.repetitions):
        server.kill()
        server, row = start(peer, level, directory)
        dbsize(server, keys)
        rows.append({"log": level.upper(), **row, "peer": "redis", "keys": keys})
        rows[-1].update(repetition=repetition)
        rows[-1]["data_bytes"] = size_of(directory, "*.rdb", "*.aof")
    server.kill()
    return rows


def compare(plan, load, both, scratch, say):
    rows = []
    for keys in plan.startup_keys:
        rows += pando(plan, load, both["pando"], scratch / f"start-pando-{keys}", keys)
        say(f"start-up of pandod with {keys:,} keys: done")
        for level in ("rdb", "aof"):
            directory = scratch / f"start-{level}-{keys}"
            rows += redis(plan, load, both["redis"], directory, keys, level)
            say(f"start-up of redis-server with {keys:,} keys, {level.upper()}: done")
    return rows
