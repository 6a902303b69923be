"""What the server tells a service manager, read from a notify socket of the test's own."""

import contextlib
import ctypes
import os
import pathlib
import re
import signal
import socket

import pytest
import support

pytestmark = pytest.mark.own


@pytest.fixture
def manager(tmp_path, monkeypatch):
    """The messages a manager gets, one at a time."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.bind(str(tmp_path / "notify"))
        receiver.settimeout(support.LIMIT)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield receiver


def message(receiver):
    return receiver.recv(4096).decode().split("\n")


def messages_until(receiver, wanted):
    seen = []
    while wanted not in seen:
        seen += message(receiver)
    return seen


def test_ready_is_said_when_clients_are_served_and_not_before(make_server, manager):
    server = make_server().spawn()
    seen = messages_until(manager, "READY=1")
    assert seen[0].startswith("STATUS=")
    assert server.client().ping()  # without waiting or asking again


def test_ready_comes_after_recovery(make_server, manager):
    server = make_server().start()
    messages_until(manager, "READY=1")
    server.client().set("kept", "1")
    server.kill()
    server.spawn()
    messages_until(manager, "READY=1")
    assert "Recovered" in server.log()
    assert server.client().get("kept") == b"1"


def test_a_start_asks_for_time_before_it_is_ready(make_server, manager):
    make_server().spawn()
    seen = messages_until(manager, "READY=1")
    assert any(text.startswith("EXTEND_TIMEOUT_USEC=") for text in seen[:-1])


@pytest.mark.parametrize("end", ["SIGTERM", "SHUTDOWN"])
def test_stopping_is_said_when_the_end_begins(make_server, manager, end):
    server = make_server().spawn()
    messages_until(manager, "READY=1")
    if end == "SIGTERM":
        server.process.send_signal(signal.SIGTERM)
    else:
        server.client().shutdown()
    messages_until(manager, "STOPPING=1")
    assert server.wait() == 0


def waiting(receiver):
    """Every message that is there now, without waiting."""
    seen = []
    receiver.setblocking(False)
    with contextlib.suppress(BlockingIOError):
        while True:
            seen += message(receiver)
    receiver.settimeout(support.LIMIT)
    return seen


def test_a_server_that_cannot_start_never_says_ready(make_server, manager):
    first = make_server().start()
    messages_until(manager, "READY=1")
    second = make_server(directory="other")
    second.directory = first.directory
    second.spawn()
    assert second.wait() == 1
    seen = waiting(manager)
    assert seen and "READY=1" not in seen


def test_the_watchdog_is_fed_while_all_loops_turn(make_server, manager, monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "60000000")
    make_server("--io-threads", "3").spawn()
    messages_until(manager, "READY=1")
    assert message(manager) == ["WATCHDOG=1"]
    assert message(manager) == ["WATCHDOG=1"]


def test_the_watchdog_is_not_fed_without_one(make_server, manager):
    assert "WATCHDOG_USEC" not in os.environ
    server = make_server().spawn()
    messages_until(manager, "READY=1")
    server.stop()
    assert "WATCHDOG=1" not in messages_until(manager, "STOPPING=1")


@contextlib.contextmanager
def one_thread_stopped(process, name):
    """While the body runs, one of the threads of that name stands still, as a hung one does."""
    seize, interrupt, detach, any_thread = 0x4206, 0x4207, 17, 0x40000000
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    tasks = pathlib.Path(f"/proc/{process.pid}/task").iterdir()
    thread = next(int(t.name) for t in tasks if (t / "comm").read_text().strip() == name)
    assert ptrace(seize, thread, None, None) == 0, os.strerror(ctypes.get_errno())
    assert ptrace(interrupt, thread, None, None) == 0
    os.waitpid(thread, any_thread)
    yield
    assert ptrace(detach, thread, None, None) == 0


def wait_for_main_thread(process, rounds):
    """Waits until the main thread has gone to sleep `rounds` more times."""
    status = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/status")

    def sleeps():
        return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", status.read_text(), re.M)[1])

    before = sleeps()
    support.wait_for(lambda: sleeps() >= before + rounds, "the main thread's next rounds")


def test_the_watchdog_is_not_fed_while_a_loop_hangs(make_server, manager, monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "60000000")
    server = make_server("--io-threads", "2").spawn()
    messages_until(manager, "READY=1")
    messages_until(manager, "WATCHDOG=1")
    with one_thread_stopped(server.process, "pando-io"):
        wait_for_main_thread(server.process, 2)  # the loop may have turned just before
        waiting(manager)
        wait_for_main_thread(server.process, 2)
        assert waiting(manager) == []
    messages_until(manager, "WATCHDOG=1")
