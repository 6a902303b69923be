"""The engine alone beside LMDB: one process for each engine and repetition, in turn."""

import json
import shutil
import subprocess

ENGINES = ("pando", "lmdb")


def compare(plan, build, scratch, say):
    rows = []
    for repetition in range(plan.repetitions):
        for engine in ENGINES if repetition % 2 == 0 else ENGINES[::-1]:
            directory = scratch / f"engine-{engine}"
            directory.mkdir()
            command = [str(build / "bench" / "engine"), "--engine", engine, "--dir", str(directory)]
            command += ["--records", str(plan.records), "--seconds", str(plan.seconds)]
            done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
            for line in done.stdout.decode().splitlines():
                rows.append({"repetition": repetition, **json.loads(line)})
            shutil.rmtree(directory)
    say("engines: done")
    return rows
