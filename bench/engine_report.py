"""The report of bench/engine: targets, tables and plots from what was measured."""

import csv
import json
import os
import platform
import statistics

FIELDS = ("repetition", "engine", "set", "workload", "records", "ops", "seconds", "cpu", "p50_us",
          "p99_us", "p999_us", "max_us", "file_bytes", "disk_bytes")
SET_TEXTS = {
    "random": "16-byte keys in random order, 100-byte values",
    "ordered": "16-byte keys in ascending order, 100-byte values",
    "threads": "the same as random, several threads",
    "article": "8-byte keys, 1 KB values",
    "mace": "16-byte keys, 128-byte values",
}
ROOM = ("settle", "trim", "compact")  # workloads of which the file's size counts


def number(value):
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def medians(rows, of, field):
    """{workload: {engine: median}} of a set; `field` takes a row."""
    groups = {}
    for row in rows:
        value = field(row) if row["set"] == of else None
        if value is not None:
            groups.setdefault(row["workload"], {}).setdefault(row["engine"], []).append(value)
    return {name: {engine: statistics.median(values) for engine, values in by.items()}
            for name, by in groups.items()}


def k_per_cpu(row):
    return row["ops"] / row["cpu"] / 1e3 if row["cpu"] > 0 else None


def k_per_second(row):
    return row["ops"] / row["seconds"] / 1e3 if row["seconds"] > 0 else None


def set_tables(rows, of, engines):
    parts = [f"## {of}: {SET_TEXTS[of]}\n"]
    for title, field in (
        ("Thousand operations per second of processor time", k_per_cpu),
        ("Thousand operations per second", k_per_second),
        ("p99 of transactions (threads: of reads), microseconds", lambda row: row.get("p99_us")),
    ):
        found = medians(rows, of, field)
        body = [[name, *(number(by.get(engine)) for engine in engines)]
                for name, by in found.items() if name not in ROOM]
        if body:
            parts += [f"{title}:\n", table(["", *engines], body)]
    sizes = medians(rows, of, lambda row: row["file_bytes"] / 2**20)
    body = [[text, *(number(sizes.get(name, {}).get(engine)) for engine in engines)]
            for name, text in (("settle", "loaded"), ("trim", "trimmed"), ("compact", "compacted at the end"))
            if name in sizes]
    return parts + ["Data file (or all files where the data are in several), MiB:\n",
                    table(["", *engines], body)]


def target_table(verdicts):
    body = []
    for target, found, median, reached, each in verdicts:
        sign = ">=" if target.least else "<="
        if target.metric == "p99":
            against = "itself alone"
        else:
            against = "LMDB" if "lmdb" in target.peers else ", ".join(target.peers)
        spread = f"{min(found):.2f}-{max(found):.2f}" if found else ""
        verdict = "not measured" if reached is None else "yes" if reached else "**no**"
        one = "; ".join(f"{name} {value:.2f}" for name, value in each.items()) if len(each) > 1 else ""
        body.append([target.text, against, f"{sign} {target.limit:.2f}",
                     "" if median is None else f"{median:.2f}", spread, one, verdict])
    head = ["what", "beside", "target", "median", "spread", "beside each", "reached"]
    return table(head, body)


def plot(rows, of, engines, path):
    """A bar for each engine and workload; False without matplotlib."""
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("svg")
    import matplotlib.pyplot as pyplot

    found = medians(rows, of, k_per_cpu)
    names = [name for name in found if name not in ROOM]
    figure, axes = pyplot.subplots(figsize=(10, 1.5 + 0.22 * len(names) * len(engines) / 2))
    height = 0.8 / len(engines)
    for i, engine in enumerate(engines):
        at = [y + height * i for y in range(len(names))]
        axes.barh(at, [found[name].get(engine, 0) for name in names], height, label=engine)
    axes.set_yticks([y + 0.4 - height / 2 for y in range(len(names))], names)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("thousand operations per second of processor time")
    axes.set_title(f"{of}: {SET_TEXTS[of]}")
    axes.legend(loc="lower right", fontsize="small")
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
    return True


def write(rows, verdicts, plan, folder):
    (folder / "raw.json").write_text(json.dumps({"plan": vars(plan), "rows": rows}, indent=1))
    with open(folder / "rows.csv", "w", newline="") as out:
        writer = csv.DictWriter(out, FIELDS)
        writer.writeheader()
        writer.writerows(rows)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    text = ["# Pando's engine beside others\n",
            f"{platform.machine()}, {os.cpu_count()} processors, load {load} at the end; "
            f"{plan.records:,} records, medians of {plan.repetitions}. Ratios are of repetitions; "
            "rates by the clock suffer from whatever else the machine does.\n",
            "## Targets (Pando's figure / the best peer's)\n", target_table(verdicts)]
    for of in plan.sets:
        engines = [name for name in plan.engines
                   if any(row["set"] == of and row["engine"] == name for row in rows)]
        text += set_tables(rows, of, engines)
        if engines and plot(rows, of, engines, folder / f"{of}.svg"):
            text.append(f"![{of}]({of}.svg)\n")
    report = "\n".join(text)
    (folder / "report.md").write_text(report)
    return report
