"""Throughput, latency and processor time of GET, SET and a mixture, beside redis-server.

Both servers run at the same time and are measured in turn, so that a change of the machine meets
both; the one that is not measured has nothing to do. What a server leaves for later (checkpoints,
syncs) is waited for after each run and counted as the run's processor time.
"""

import csv
import io
import itertools
import subprocess

import peers

WORKLOADS = {"GET": (1, 0), "SET": (0, 1), "GET:SET 10:1": (10, 1)}
PIPELINES = (1, 16)
LEVELS = ("everysec", "always", "none")
CONNECTIONS, VALUE = 50, 100


def measure(load, server, workload, pipeline, plan, seed, prefix=()):
    gets, sets = WORKLOADS[workload]
    server.settle()
    result = load.run(
        server,
        prefix,
        keys=plan.keys,
        gets=gets,
        sets=sets,
        pipeline=pipeline,
        connections=CONNECTIONS,
        value=VALUE,
        seconds=plan.seconds,
        warmup=plan.seconds / 10,
        seed=seed,
        buckets=True,
    )
    if result["missed"]:
        raise SystemExit(f"{server.peer.name}: {result['missed']} keys were not found")
    result["later_cpu"] = server.settle()
    cpu = result["server_cpu"] + result["later_cpu"]
    return {**result, "cpu_per_million": cpu / result["ops"] * 1e6}


def compare(plan, load, both, scratch, say):
    """A list of {level, workload, pipeline, peer, repetition, ...results}."""
    rows = []
    for level in plan.levels:
        servers = []
        try:
            for name in both:
                servers.append(peers.Server(both[name], level, scratch / f"{level}-{name}"))
                servers[-1].wait_ready()
                load.fill(servers[-1], plan.keys)
            cases = itertools.product(range(plan.repetitions), WORKLOADS, PIPELINES)
            for repetition, workload, pipeline in cases:
                order = servers if repetition % 2 == 0 else servers[::-1]
                for server in order:
                    row = {"level": level, "workload": workload, "pipeline": pipeline}
                    row.update(peer=server.peer.name, repetition=repetition)
                    result = measure(load, server, workload, pipeline, plan, repetition + 1)
                    rows.append({**row, **result})
            say(f"throughput at {level}: done")
        finally:
            for server in servers:
                server.kill()
    return rows


def redis_benchmark(server, workload, pipeline, plan, requests):
    command = ["redis-benchmark", "-p", str(server.port), "-t", workload.lower(), "--csv"]
    command += ["-c", str(CONNECTIONS), "-d", str(VALUE), "-r", str(plan.keys)]
    command += ["-P", str(pipeline), "-n", str(requests)]
    before = server.cpu()
    done = subprocess.run(
        command, stdout=subprocess.PIPE, check=True, preexec_fn=peers.pin(peers.CLIENT_CPU)
    )
    line = list(csv.DictReader(io.StringIO(done.stdout.decode())))[-1]
    return {
        "rate": float(line["rps"]),
        "p50_us": float(line["p50_latency_ms"]) * 1e3,
        "p99_us": float(line["p99_latency_ms"]) * 1e3,
        "cpu_per_million": (server.cpu() - before) / requests * 1e6,
    }


def validate(plan, load, redis, scratch, say):
    """Our load generator and redis-benchmark, in turn, on the same redis-server."""
    rows = []
    server = peers.Server(redis, "none", scratch / "validate")
    try:
        server.wait_ready()
        load.fill(server, plan.keys)
        cases = itertools.product(range(plan.repetitions), ("GET", "SET"), PIPELINES)
        for repetition, workload, pipeline in cases:
            row = {"workload": workload, "pipeline": pipeline, "repetition": repetition}
            ours = measure(load, server, workload, pipeline, plan, repetition + 1)
            rows.append({**row, "client": "load", **ours})
            theirs = redis_benchmark(server, workload, pipeline, plan, ours["ops"])
            rows.append({**row, "client": "redis-benchmark", **theirs})
            # redis-benchmark's SET writes another text: put ours back before the next GET.
            if workload == "SET" and pipeline == PIPELINES[-1]:
                load.fill(server, plan.keys)
    finally:
        server.kill()
    say("load generator beside redis-benchmark: done")
    return rows
