"""A memory limit that is smaller than the data: the kernel throws pages out, and reads them again.

The server runs in a control group (version 1) of its own with a limit. Major faults, counted by the
kernel for each thread, tell who has waited for the disk.
"""

import os
import pathlib
import random
import threading

import pytest
from support import PANDOD, encode, wait_for

pytestmark = pytest.mark.own

LIMIT = 64 * 2**20
KEYS = 60000
KEY = "key:{:06d}".format
SANITIZED = {"address", "thread"} & {part.split("-")[0] for part in pathlib.Path(PANDOD).parts}


def value(number):
    return (b"%06d" % number) * 316


def own_group():
    """The folder of this process's memory group, or None."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return pathlib.Path("/sys/fs/cgroup/memory" + path)
    return None


@pytest.fixture
def memory_group():
    if SANITIZED:
        pytest.skip("a sanitizer's own memory does not fit into the limit")
    above = own_group()
    if above is None or not os.access(above, os.W_OK):
        pytest.skip("no control group (version 1) for memory can be made here")
    group = above / f"pando-test-{os.getpid()}"
    group.mkdir()
    (group / "memory.limit_in_bytes").write_text(str(LIMIT))
    yield group
    group.rmdir()


def load(server):
    with server.raw() as raw:
        for start in range(0, KEYS, 200):
            raw.send(b"".join(encode("SET", KEY(n), value(n)) for n in range(start, start + 200)))
            for _ in range(200):
                assert raw.reply() == "OK"


def work(server, seed, operations, share_of_writes, failures):
    """Random reads and writes, each checked; a key's value says its name, and is one of two."""
    choose = random.Random(seed)
    client = server.client()
    for _ in range(operations):
        number = choose.randrange(KEYS)
        if choose.random() < share_of_writes:
            done = client.set(KEY(number), value(number) + choose.choice([b"", b"again"]))
        else:
            done = client.get(KEY(number)) in (value(number), value(number) + b"again")
        if not done:
            failures.append(number)


def work_together(server, operations, share_of_writes):
    failures = []
    threads = [
        threading.Thread(target=work, args=(server, seed, operations, share_of_writes, failures))
        for seed in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def major_faults(server):
    """So far, by name of thread."""
    faults = {}
    for task in pathlib.Path(f"/proc/{server.process.pid}/task").iterdir():
        before, after = (task / "stat").read_text().rsplit(")", 1)
        name = before.split("(", 1)[1]
        faults[name] = faults.get(name, 0) + int(after.split()[9])
    return faults


def test_with_more_data_than_memory_only_the_pool_waits_for_the_disk(memory_group, make_server):
    server = make_server("--dirty-memory", "8mb", "--durability", "everysec")
    server.before_exec = lambda: (memory_group / "cgroup.procs").write_text(str(os.getpid()))
    server.start()
    load(server)
    server.restart()
    client = server.client()
    assert client.info()["file_bytes"] > 1.5 * LIMIT

    def is_on():
        work_together(server, 50, 0.1)
        return client.info()["disk_regime"] == 1

    wait_for(is_on, "the regime to go on")
    for share_of_writes in (0, 0.2):
        before, figures = major_faults(server), client.info()
        work_together(server, 1500, share_of_writes)
        after, changed = major_faults(server), client.info()
        waited = {name: count - before.get(name, 0) for name, count in after.items()}
        assert waited["pando-reader"] > 1000, waited
        served = waited["pando-io"] + waited["pando-writer"]
        assert served < waited["pando-reader"] / 10, waited
        reads = "reads_sent_to_pool_for_disk"
        assert changed[reads] - figures[reads] > 1000
        if share_of_writes > 0:
            assert changed["writes_walked_ahead"] - figures["writes_walked_ahead"] > 300
    assert client.info()["disk_refaults"] > 0
    assert client.info()["disk_major_faults"] > 0
    assert client.dbsize() == KEYS
