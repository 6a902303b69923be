"""The servers under measurement: starting them pinned, filling, killing, and what they used.

Invariants:
 1. A server has a port and a directory of its own and is ended, by its process id, by whoever
    started it; the directory goes with it unless it is kept for the next start.
 2. Every wait is for a condition and bounded by LIMIT.
 3. The server runs on SERVER_CPU, its client on CLIENT_CPU (the same one on a single core).
"""

import contextlib
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import time

LIMIT = 120.0  # seconds
TICKS = os.sysconf("SC_CLK_TCK")
CPUS = sorted(os.sched_getaffinity(0))
SERVER_CPU, CLIENT_CPU = CPUS[0], CPUS[-1]


def free_port():
    """A port nobody listens on, below those that the kernel gives to outgoing connections."""
    while True:
        port = random.randrange(15000, 32000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def pin(cpu, before=None):
    """What a new process does first: it stays on one processor, and calls `before`."""

    def prepare():
        os.sched_setaffinity(0, {cpu})
        if before is not None:
            before()

    return prepare


class Peer:
    """What distinguishes the servers: the command line and the names of things."""

    def __init__(self, name, program, levels, checkpoint):
        self.name, self.program, self.levels, self.checkpoint = name, program, levels, checkpoint


def peers(build):
    """Pando and Redis; `levels` gives the arguments that make their promises equal."""
    quiet = ["--auto-aof-rewrite-percentage", "0"]
    aof = ["--appendonly", "yes", "--appendfsync"]
    return {
        "pando": Peer(
            "pando",
            [str(build / "pandod")],
            {level: ["--durability", level] for level in ("none", "everysec", "always")},
            "SAVE",
        ),
        "redis": Peer(
            "redis",
            ["redis-server"],
            {
                "none": ["--appendonly", "no"],
                "everysec": [*aof, "everysec", *quiet],
                "always": [*aof, "always", *quiet],
                "rdb": ["--appendonly", "no"],
                "aof": [*aof, "everysec"],
            },
            "SAVE",
        ),
    }


class Server:
    """One running process."""

    def __init__(self, peer, level, directory, arguments=(), before=None):
        self.peer, self.directory, self.port = peer, pathlib.Path(directory), free_port()
        self.directory.mkdir(parents=True, exist_ok=True)
        command = [*peer.program, "--bind", "127.0.0.1", "--port", str(self.port)]
        command += ["--dir", str(self.directory), *peer.levels[level], *arguments]
        if peer.name == "redis":
            command += ["--save", ""]
        self.log = open(self.directory / "server-messages", "ab")
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            command, stdout=self.log, stderr=self.log, preexec_fn=pin(SERVER_CPU, before)
        )

    def ask(self, *words):
        """Sends one command over a new connection; the reply's first line, or of a string its text."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT) as s:
            text = b"".join(b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in words)
            s.sendall(b"*%d\r\n%s" % (len(words), text))
            with s.makefile("rb") as reply:
                line = reply.readline().decode().rstrip()
                if not line.startswith("$") or line == "$-1":
                    return line
                return reply.read(int(line[1:])).decode()

    def wait_ready(self):
        """Seconds from the start to the first PONG."""
        while True:
            with contextlib.suppress(ConnectionError):
                if self.ask("PING") == "+PONG":
                    return time.monotonic() - self.started
            if self.process.poll() is not None or time.monotonic() > self.started + LIMIT:
                raise SystemExit(f"{self.peer.name} did not start: see {self.log.name}")
            time.sleep(0.0005)

    def messages(self):
        return pathlib.Path(self.log.name).read_text(errors="replace")

    def info(self, field):
        for line in self.ask("INFO").splitlines():
            name, _, value = line.partition(":")
            if name == field:
                return value
        return None

    def cpu(self):
        """User and system seconds of the process and of children it waited for."""
        text = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text()
        return sum(int(n) for n in text.rsplit(")", 1)[1].split()[11:15]) / TICKS

    def settle(self, limit=5.0):
        """Waits until the server does (nearly) nothing; returns the seconds of CPU it took."""
        begin = before = self.cpu()
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            time.sleep(0.1)
            now = self.cpu()
            if now - before <= 1 / TICKS:
                return now - begin
            before = now
        return before - begin

    def checkpoint(self):
        reply = self.ask(self.peer.checkpoint)
        if not reply.startswith("+"):
            raise SystemExit(f"{self.peer.name}: {self.peer.checkpoint} was answered with {reply}")

    def kill(self):
        """Ends it at once, as kill -9 does."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.log.close()


class Load:
    """Our load generator, pinned to the client's processor."""

    def __init__(self, build):
        self.program = str(build / "bench" / "load")

    def run(self, server, prefix=(), **options):
        """The result of one run; `prefix` is a program that runs it."""
        command = [*prefix, self.program, "--port", str(server.port), "--pid", str(server.process.pid)]
        for name, value in options.items():
            if value is True:
                command.append(f"--{name}")
            else:
                command += [f"--{name}", str(value)]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, check=False, preexec_fn=pin(CLIENT_CPU)
        )
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(command)} failed; the server said {server.messages()}")
        return json.loads(done.stdout)

    def fill(self, server, keys):
        return self.run(server, fill=True, keys=keys, pipeline=64)
