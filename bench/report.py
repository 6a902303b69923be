"""The report: medians, ratios and a summary in Markdown; every measurement in JSON and CSV."""

import collections
import csv
import json
import os
import platform
import statistics
import subprocess


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def number(value):
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def medians(rows, by, fields):
    """{key: {field: median}}, keys in order of appearance."""
    groups = collections.defaultdict(list)
    for row in rows:
        groups[tuple(row[name] for name in by)].append(row)
    return {
        key: {f: statistics.median(r[f] for r in group if f in r) for f in fields if f in group[0]}
        for key, group in groups.items()
    }


def startup(rows):
    fields = ("ping_s", "get_s", "cpu_s", "replayed", "log_bytes", "data_bytes")
    found = medians(rows, ("keys", "peer", "log"), fields)
    lines = []
    for (keys, peer, log), m in found.items():
        lines.append([f"{keys:,}", peer, log])
        lines[-1] += [f"{m['replayed']:,.0f}", f"{m['log_bytes'] / 1e6:.1f}"] if peer == "pando" else ["", ""]
        lines[-1] += [f"{m['data_bytes'] / 1e6:,.0f}", f"{m['ping_s'] * 1e3:,.1f}"]
        lines[-1] += [f"{m['get_s'] * 1e3:,.1f}", f"{m['cpu_s']:.2f}"]
    head = "keys|server|log since the checkpoint|operations replayed|log MB|data MB"
    head += "|first PONG ms|first GET ms|CPU s"
    return table(head.split("|"), lines), startup_summary(found)


def startup_summary(found):
    most = max(keys for keys, _, _ in found)
    rows = {(peer, log): m["ping_s"] for (keys, peer, log), m in found.items() if keys == most}
    pando = [t for (peer, _), t in rows.items() if peer == "pando"]
    text = f"Start-up with {most:,} keys: {rows['pando', 'default settings'] * 1e3:,.0f} ms to the first "
    text += f"PONG with default settings ({min(pando) * 1e3:,.0f} to {max(pando) * 1e3:,.0f} ms over the "
    text += f"amounts of log); redis-server {rows['redis', 'RDB']:.2f} s from RDB, "
    return [text + f"{rows['redis', 'AOF']:.2f} s from AOF."]


def throughput(rows):
    fields = ("rate", "p50_us", "p99_us", "p999_us", "cpu_per_million")
    found = medians(rows, ("level", "workload", "pipeline", "peer"), fields)
    lines, summary = [], []
    for level, workload, pipeline in dict.fromkeys(key[:3] for key in found):
        pando = found[level, workload, pipeline, "pando"]
        redis = found[level, workload, pipeline, "redis"]
        ratio = {f: pando[f] / redis[f] for f in fields if redis[f] > 0}
        cells = [level, workload, str(pipeline)]
        for field in fields:
            unit = 1e3 if field == "rate" else 1
            cells.append(f"{number(pando[field] / unit)} / {number(redis[field] / unit)}")
            cells[-1] += f" = **{ratio[field]:.2f}**" if field in ratio else ""
        lines.append(cells)
        summary.append(
            f"{level}, {workload}, pipeline {pipeline}: throughput {ratio['rate']:.2f}, "
            f"p99 {ratio['p99_us']:.2f}, CPU {ratio.get('cpu_per_million', 0):.2f}"
        )
    head = ["level", "workload", "pipeline", "k requests/s", "p50 us", "p99 us", "p99.9 us"]
    return table([*head, "server CPU s / million"], lines), summary


def memory(rows):
    fields = ("rate", "p50_us", "p99_us", "p999_us")
    found = medians(rows, ("mode", "keys"), fields)
    lines = [
        [mode, keys, number(f["rate"] / 1e3), *(number(f[field]) for field in fields[1:])]
        for (mode, keys), f in found.items()
    ]
    pool, inline = found["pool", "hot"], found["inline", "hot"]
    summary = [
        f"more data than memory, hot keys, disk-reads pool / inline: throughput "
        f"{pool['rate'] / inline['rate']:.2f}, p99 {pool['p99_us'] / inline['p99_us']:.2f}"
    ]
    head = ["disk-reads", "keys", "k requests/s", "p50 us", "p99 us", "p99.9 us"]
    return table(head, lines), summary


def validation(rows):
    fields = ("rate", "p50_us", "p99_us", "cpu_per_million")
    found = medians(rows, ("workload", "pipeline", "client"), fields)
    lines = []
    for (workload, pipeline, client), m in found.items():
        lines.append([workload, str(pipeline), client, number(m["rate"] / 1e3)])
        lines[-1] += [number(m[f]) for f in fields[1:]]
    head = ["workload", "pipeline", "client", "k requests/s", "p50 us", "p99 us"]
    return table([*head, "server CPU s / million"], lines)


def limits(verdicts):
    lines = []
    for level, workload, pipeline, ratio, limit, reached in verdicts:
        lines.append([level, workload, str(pipeline), f"{ratio:.3f}", f"{limit:.2f}"])
        lines[-1].append("reached" if reached else "**missed**")
    return table(["level", "workload", "pipeline", "CPU ratio", "at most", ""], lines)


def stages(rows):
    """For each case a line for each stage: what Pando and Redis spend an operation."""
    found = {}
    for row in rows:
        case = found.setdefault((row["level"], row["workload"], row["pipeline"]), {})
        case.setdefault(row["stage"], {})[row["peer"]] = row["us"]
    lines = []
    for (level, workload, pipeline), parts in found.items():
        sums = {p: sum(part.get(p, 0) for part in parts.values()) for p in ("pando", "redis")}
        for stage, part in [*parts.items(), ("sum", sums)]:
            cells = [level, workload, str(pipeline), stage]
            cells += [f"{part[p]:.3f}" if p in part else "" for p in ("pando", "redis")]
            lines.append(cells)
    head = ["level", "workload", "pipeline", "stage", "Pando CPU us/op", "Redis CPU us/op"]
    return table(head, lines)


def surroundings(load_before):
    redis = subprocess.run(["redis-server", "--version"], stdout=subprocess.PIPE, check=True)
    version = next(w for w in redis.stdout.decode().split() if w.startswith("v="))[2:]
    return (
        f"{len(os.sched_getaffinity(0))} cores, Linux {platform.release()}, redis-server {version}; "
        f"load average {load_before:.2f} before, {os.getloadavg()[0]:.2f} after. Medians of the "
        "repetitions. A ratio is Pando's figure divided by the other's: above 1 is better for rates, "
        "below 1 for latencies and processor time."
    )


def keep(results, plan, folder):
    """raw.json and a CSV for each section."""
    (folder / "raw.json").write_text(json.dumps({"plan": vars(plan), **results}))
    for section, rows in results.items():
        flat = [{k: v for k, v in row.items() if not isinstance(v, list)} for row in rows]
        names = list(dict.fromkeys(k for row in flat for k in row))
        with open(folder / f"{section}.csv", "w", newline="") as f:
            out = csv.DictWriter(f, names)
            out.writeheader()
            out.writerows(flat)


def write(results, verdicts, plan, load_before, folder):
    """Writes report.md and returns its text."""
    text, summary = ["# Benchmarks\n", surroundings(load_before) + "\n"], []
    if "startup" in results:
        body, lines = startup(results["startup"])
        text += ["## Start-up after kill -9\n", body]
        summary += lines
    if "throughput" in results:
        body, lines = throughput(results["throughput"])
        text += [
            f"## Beside redis-server ({plan.keys:,} keys, values of 100 bytes, 50 connections)\n",
            "Pando / Redis = **ratio**.\n",
            body,
        ]
        summary += lines
        text += ["## Limits: processor time, medians of the repetitions' ratios\n", limits(verdicts)]
    if "stages" in results:
        text += ["## Budget by stages\n", stages(results["stages"])]
    if "validation" in results:
        text += ["## The load generator beside redis-benchmark, on redis-server without persistence\n"]
        text += [validation(results["validation"])]
    if "memory" in results:
        body, lines = memory(results["memory"])
        text += [f"## More data than memory ({plan.memory_keys:,} keys, values of 1,000 bytes)\n"]
        text += [body]
        summary += lines
    text += ["## Summary (Pando's figure / the other's)\n", *(f"- {line}" for line in summary), ""]
    report = "\n".join(text)
    (folder / "report.md").write_text(report)
    return report
