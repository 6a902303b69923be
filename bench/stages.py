"""Where a server's processor time goes: samples of its stacks, sorted into the stages of a request.

perf samples by the processor's clock (no hardware counters are needed). A sample inside a system
call belongs to the call's stage, whatever the kernel does for it; any other to the stage of the
innermost function that has one. Debian's redis-server has few symbols: of its own code hardly more
than the sum is known.
"""

import collections
import re
import shutil
import subprocess

import peers
import throughput

# The first stage with a pattern that matches counts; kernel functions of a stack, outermost first.
SYSTEM_CALLS = (
    ("receive", r"sys_(recv|read\b|readv|accept)"),
    ("send", r"sys_(send|write\b|writev)"),
    ("wait for sockets", r"sys_epoll"),
    ("log", r"sys_(pwrite|fdatasync|fsync|sync_file|fallocate)"),
    ("wake-ups", r"sys_(futex|poll|ppoll|sched_yield|clock_nano)|eventfd_write"),
    ("memory", r"sys_(m?map|munmap|madvise|brk)|asm_exc_page_fault"),
)
# Functions of the program, innermost first.
FUNCTIONS = (
    ("parse", r"^(resp_(parse|args|split)|parse|take_(off|line|bulk)|copy_words|number_)"),
    ("reply", r"^(resp_write|resp_out|put_digits|object_write|send_replies)"),
    ("receive", r"^(__libc_recv|conn_receive|conn_keep)"),
    ("send", r"^(__send|send_|conn_send|conn_room|config_output)"),
    ("lookup", r"^(ps_get|node_(guess|search|read|find)|lookup|keyspace_(find|found|look)|record_dec)"),
    ("log", r"^(log_|crc32c|ps_commit|commit_)"),
    ("checkpoint", r"^(checkpoint|space_|verify_|meta_)"),
    ("tree changes", r"^(ps_|node_|tree_|txn_|path_|page_|rebuild|harvest|make_room|change|arena_|re(link|claim)|state_|overflow_|keyspace_|version_|record_)"),
    ("wake-ups", r"^(mailbox_|writer_|unit_|post_home|take_waiting|group_|pool_|list_|__poll|__GI___libc_write)"),
    ("dispatch", r"^(dispatch_|command_|run_|call$|execute|pass$|loop_turn|cmd_|session_|fill_cont|set_generic|options_|object_|store$|exec_now|__str)"),
    ("wait for sockets", r"^(event_|epoll_|evmap|evthread|on_|conn_|loop_)"),
    ("copy", r"^(__)?mem(cpy|move|set|chr|cmp)"),
    ("memory", r"(malloc|free|calloc|realloc)"),
)


def available():
    return shutil.which("perf") is not None


def stage_of(stack):
    """The stage of a stack of (function, whether the kernel's), innermost first."""
    for stage, pattern in SYSTEM_CALLS:
        if any(kernel and re.search(pattern, name) for name, kernel in stack):
            # An eventfd is written by write(2), too.
            if stage == "send" and any(name == "eventfd_write" for name, _ in stack):
                return "wake-ups"
            return stage
    for name, kernel in stack:
        for stage, pattern in FUNCTIONS if not kernel else ():
            if re.search(pattern, name):
                return stage
    return "kernel, other" if stack[0][1] else "own code, other"


def stacks(text):
    """The stacks of what perf script prints: lines of addresses and functions, an empty one between."""
    stack = []
    for line in text.splitlines():
        words = line.split()
        if not words:
            if stack:
                yield stack
            stack = []
        elif line[0] in " \t" and re.fullmatch(r"[0-9a-f]+", words[0]):
            stack.append((words[1] if len(words) > 1 else "", words[0].startswith("ffffffff")))
    if stack:
        yield stack


def sampled(pid, data):
    """The command line in front of a command during which the process is sampled."""
    record = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "3000", "-g"]
    return [*record, "-p", str(pid), "-o", str(data), "--"]


def shares(data):
    """{stage: part of the samples}."""
    script = subprocess.run(
        ["perf", "script", "-i", data, "-F", "ip,sym", "--no-inline"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True,
    )
    counts = collections.Counter(map(stage_of, stacks(script.stdout.decode(errors="replace"))))
    return {stage: n / counts.total() for stage, n in counts.items()}


def budget(plan, load, both, scratch, case):
    """{peer: {stage: microseconds an operation}} of (level, workload, pipeline)."""
    level, workload, pipeline = case
    found = {}
    for name in both:
        folder = scratch / f"stages-{name}"
        server = peers.Server(both[name], level, folder)
        try:
            server.wait_ready()
            load.fill(server, plan.keys)
            plain = throughput.measure(load, server, workload, pipeline, plan, 1)
            data = folder / "perf.data"
            prefix = sampled(server.process.pid, data)
            throughput.measure(load, server, workload, pipeline, plan, 2, prefix)
        finally:
            server.kill()
        parts = shares(data)
        found[name] = {stage: part * plain["cpu_per_million"] for stage, part in parts.items()}
    return found


def rows(plan, load, both, scratch, cases, say):
    """A list of {level, workload, pipeline, peer, stage, us}."""
    result = []
    for case in cases:
        level, workload, pipeline = case
        for peer, parts in budget(plan, load, both, scratch, case).items():
            for stage, us in sorted(parts.items(), key=lambda item: -item[1]):
                result.append({"level": level, "workload": workload, "pipeline": pipeline})
                result[-1].update(peer=peer, stage=stage, us=us)
        say(f"stages of {workload}, {level}, pipeline {pipeline}: done")
    return result
