"""Starting servers and talking to them byte by byte.

Invariants:
 1. Every wait is for a condition and bounded by LIMIT; nothing sleeps in hope.
 2. Every server has its own port and directory and is ended by whoever started it.
 3. A server stopped by its fixture must exit with 0 and leave no sanitizer report in its log.
"""

import os
import pathlib
import random
import re
import select
import shutil
import signal
import socket
import subprocess
import time

import psutil
import redis

LIMIT = 60.0  # seconds: far above what anything takes, also under a sanitizer
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PANDOD = os.environ.get("PANDOD", str(ROOT / "build" / "pandod"))
TOOL = os.environ.get("PANDO_TOOL", str(pathlib.Path(PANDOD).parent / "pando-tool"))
REDIS = shutil.which("redis-server")
# Neutral tests may be developed against redis-server itself: PANDOD=redis-server.
IS_REDIS = pathlib.Path(PANDOD).name == "redis-server"
REPORTS = re.compile(r"(ERROR|WARNING): \w+Sanitizer|runtime error:|Assertion|assertion failed")


def wait_for(condition, what, limit=LIMIT):
    """Asks until `condition()` is true and returns its value; fails after `limit` seconds."""
    deadline = time.monotonic() + limit
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {limit:.0f} s for {what}")
        time.sleep(0.005)


def free_port():
    """A port nobody listens on, below those that the kernel gives to outgoing connections."""
    while True:
        port = random.randrange(15000, 32000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


class Server:
    """One process with its port, directory and log."""

    def __init__(self, directory, arguments=(), program=None, config=None):
        self.program = program or PANDOD
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.arguments = list(arguments)
        self.config = config
        self.before_exec = None  # called in the new process
        self.port = free_port()
        self.log_path = self.directory.parent / (self.directory.name + ".log")
        self.process = None
        self.over = True  # no process, or one whose end was expected and has been judged

    def command(self):
        head = [self.program] + ([str(self.config)] if self.config else [])
        place = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.directory)]
        return head + place + [str(a) for a in self.arguments]

    def spawn(self):
        self.over = False
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                preexec_fn=self.before_exec,
            )
        return self

    def start(self):
        self.spawn()
        wait_for(self._answers_or_ended, f"the server on port {self.port}")
        assert self.process.poll() is None, f"the server ended at once:\n{self.log()}"
        return self

    def _listens(self):
        """Whether it is this process, and no stranger, that listens on the port."""
        try:
            sockets = psutil.Process(self.process.pid).connections(kind="tcp")
        except psutil.Error:
            return False
        return any(s.status == psutil.CONN_LISTEN and s.laddr.port == self.port for s in sockets)

    def _answers_or_ended(self):
        if self.process.poll() is not None:
            return True
        if not self._listens():
            return False
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT) as probe:
                probe.sendall(b"PING\r\n")
                return probe.recv(1) != b""
        except OSError:
            return False

    def wait(self, limit=LIMIT):
        """The exit status of a server that is expected to end by itself."""
        status = self.process.wait(timeout=limit)
        self.over = True
        return status

    def stop(self, sign=signal.SIGTERM):
        if self.over:
            return
        self.over = True
        status = self.process.poll()
        assert status is None, f"ended by itself, status {status}:\n{self.log()}"
        self.process.send_signal(sign)
        try:
            status = self.process.wait(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"still running {LIMIT:.0f} s after {sign!r}:\n{self.log()}")
        assert status == 0, f"exit status {status}:\n{self.log()}"
        self.assert_clean_log()

    def assert_clean_log(self):
        report = REPORTS.search(self.log())
        assert report is None, f"a report in the log:\n{self.log()}"

    def kill(self):
        status = self.process.poll()
        assert status is None, f"ended by itself, status {status}:\n{self.log()}"
        self.process.kill()
        self.process.wait()
        self.over = True

    def restart(self):
        self.stop()
        return self.start()

    def crash_and_restart(self):
        self.kill()
        return self.start()

    def log(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def client(self, **options):
        options.setdefault("socket_timeout", LIMIT)
        return redis.Redis("127.0.0.1", self.port, **options)

    def raw(self):
        return RawClient(self.port)

    def cli(self, *arguments, **options):
        """redis-cli's completed process."""
        return subprocess.run(
            ["redis-cli", "-h", "127.0.0.1", "-p", str(self.port), *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT, text=True, **options,
        )


class Hook:
    """A step of the server that waits for this test (directive test-hook-dir).

    Reaching the step, the server writes a byte to the pipe NAME.arrived, then reads NAME.go until
    it has been closed here. Without the pipes it passes by.
    """

    def __init__(self, directory, name):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(exist_ok=True)
        self.arrived = self.directory / f"{name}.arrived"
        self.go = self.directory / f"{name}.go"
        os.mkfifo(self.arrived)
        os.mkfifo(self.go)
        self.reader = os.open(self.arrived, os.O_RDONLY | os.O_NONBLOCK)
        self.held = False

    def wait(self):
        """Waits until the server is at the step, where it stays until release()."""
        assert select.select([self.reader], [], [], LIMIT)[0], f"nothing came to {self.arrived}"
        assert os.read(self.reader, 1)
        self.held = True

    def _open_go(self):
        try:
            return os.open(self.go, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return None  # the server has not opened its end yet

    def release(self):
        """Lets the server go on, now and whenever it comes here again."""
        if self.held:
            writer = wait_for(self._open_go, f"the server to read {self.go}")
            self.arrived.unlink()
            self.go.unlink()
            os.close(writer)
            os.close(self.reader)
            self.held = False


class Push(list):
    """A RESP3 push, told apart from an array."""


class ReplyError(Exception):
    """An error reply, as a value in the list of replies."""

    def __eq__(self, other):
        return isinstance(other, ReplyError) and self.args == other.args

    def __hash__(self):
        return hash(self.args)


class RawClient:
    """A socket and a parser of RESP2 and RESP3 that shares nothing with redis-py."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=LIMIT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def command(self, *words):
        self.send(encode(*words))
        return self.reply()

    def _fill(self):
        data = self.socket.recv(65536)
        if not data:
            raise EOFError("connection closed")
        self.buffer += data

    def _line(self):
        while b"\r\n" not in self.buffer:
            self._fill()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def _exactly(self, count):
        parts, have = [self.buffer], len(self.buffer)
        while have < count + 2:
            part = self.socket.recv(1 << 20)
            if not part:
                raise EOFError("connection closed")
            parts.append(part)
            have += len(part)
        self.buffer = b"".join(parts)
        data, tail = self.buffer[:count], self.buffer[count : count + 2]
        assert tail == b"\r\n", f"no end of line after a bulk of {count} bytes: {tail!r}"
        self.buffer = self.buffer[count + 2 :]
        return data

    def reply(self):
        line = self._line()
        kind, text = line[:1], line[1:]
        if kind == b"+":
            return text.decode()
        if kind == b"-":
            return ReplyError(text.decode())
        if kind in (b":", b"("):
            return int(text)
        if kind in (b"$", b"="):
            return None if text == b"-1" else self._exactly(int(text))
        if kind in (b"*", b"~"):
            return None if text == b"-1" else [self.reply() for _ in range(int(text))]
        if kind == b">":
            return Push(self.reply() for _ in range(int(text)))
        if kind == b"%":
            return {_hashable(self.reply()): self.reply() for _ in range(int(text))}
        if kind == b"_":
            return None
        if kind == b"#":
            return text == b"t"
        if kind == b",":
            return float(text)
        raise AssertionError(f"no reply starts with {line!r}")

    def rest(self):
        """Everything up to the end of the connection."""
        data, self.buffer = self.buffer, b""
        while True:
            try:
                more = self.socket.recv(65536)
            except ConnectionResetError:
                more = b""
            if not more:
                return data
            data += more

    def until(self, end):
        """Everything up to and including `end`, or up to the end of the connection."""
        data, self.buffer = self.buffer, b""
        while end not in data:
            try:
                more = self.socket.recv(65536)
            except ConnectionResetError:
                more = b""
            if not more:
                return data
            data += more
        return data


def _hashable(value):
    return tuple(value) if isinstance(value, list) else value


def encode(*words):
    """A command as an array of bulk strings."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        data = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(parts)
