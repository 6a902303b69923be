"""What a run has to reach, and whether it did: processor time per operation, Pando's over Redis's.

A repetition measures both servers one after the other; its ratio compares like with like, whatever
else the machine did meanwhile. The median of these ratios is held against the limit.
"""

import statistics

# workload, pipeline, levels, the most that is right (and whether it may be just that)
THRESHOLDS = (
    ("GET", 1, ("everysec", "always", "none"), 1.15),
    ("GET", 16, ("everysec", "always", "none"), 1.00),
    ("SET", 1, ("everysec",), 1.40),
    ("SET", 16, ("everysec",), 1.40),
)


def ratios(rows, level, workload, pipeline):
    """The ratio of each repetition of a case that was measured."""
    found = {}
    for row in rows:
        if (row["level"], row["workload"], row["pipeline"]) == (level, workload, pipeline):
            found.setdefault(row["repetition"], {})[row["peer"]] = row["cpu_per_million"]
    return [pair["pando"] / pair["redis"] for pair in found.values() if pair.get("redis")]


def judge(rows):
    """A list of (level, workload, pipeline, median ratio, limit, reached)."""
    verdicts = []
    for workload, pipeline, levels, limit in THRESHOLDS:
        for level in levels:
            found = ratios(rows, level, workload, pipeline)
            if found:
                ratio = statistics.median(found)
                verdicts.append((level, workload, pipeline, ratio, limit, ratio <= limit))
    return verdicts
