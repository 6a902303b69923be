"""Connections that do nothing cost little, and end when their time is over."""

import resource
import select
import socket
import threading

import psutil
import pytest
from support import PANDOD, wait_for

MANY = 10_000
SANITIZED = "address" in PANDOD or "thread" in PANDOD  # its own memory is no measure of anything
BYTES_EACH = 4096 * (4 if SANITIZED else 1)


@pytest.fixture
def many(server):
    """10,000 connections that have been answered once, and the server's memory before and after."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] < MANY + 500:
        pytest.skip(f"a process may open only {limits[1]} files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limits[0], MANY + 500), limits[1]))
    if server.client().config_get("maxclients")["maxclients"] != str(MANY + 100):
        pytest.skip("the server may not open as many files")
    process = psutil.Process(server.process.pid)
    before = process.memory_info().rss
    connections = []
    for _ in range(MANY):
        connections.append(socket.create_connection(("127.0.0.1", server.port), timeout=60))
        connections[-1].sendall(b"PING\r\n")
    for connection in connections:
        assert connection.recv(100) == b"+PONG\r\n"
    yield connections, before, process
    for connection in connections:
        connection.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.own
@pytest.mark.options("--maxclients", MANY + 100)
def test_ten_thousand_idle_connections_have_no_buffers_and_go_at_the_timeout(server, many):
    connections, before, process = many
    growth = process.memory_info().rss - before
    assert growth < MANY * BYTES_EACH, f"{growth / MANY:.0f} bytes for each"
    client = server.client()
    assert client.info("clients")["connected_clients"] == MANY + 1
    for number in range(100):
        assert client.set(number, number) and client.get(number) == str(number).encode()
    client.config_set("timeout", 1)
    for connection in connections:
        assert connection.recv(1) == b""
    wait_for(
        lambda: server.client().info("clients")["connected_clients"] <= 2, "all of them to be gone"
    )


@pytest.mark.own
def test_half_a_command_and_silence_cost_what_was_sent_and_end_at_the_timeout(server):
    count, sent = 200, 3000
    process = psutil.Process(server.process.pid)
    client = server.client()
    before = process.memory_info().rss
    halves = [server.raw() for _ in range(count)]
    for half in halves:
        half.send(b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$500000000\r\n" + b"x" * sent)
    used = "used_memory_clients"
    wait_for(lambda: client.info("memory")[used] >= count * sent, "all halves to arrive")
    assert client.info("memory")[used] < 2 * count * sent
    growth = process.memory_info().rss - before  # and not the 500 MB that each of them announced
    assert growth < count * (4 * sent + BYTES_EACH) + 16 * 2**20
    with server.raw() as other:
        assert other.command("SET", "b", "1") == "OK"
    client.config_set("timeout", 1)
    for half in halves:
        assert half.rest() == b""
    wait_for(lambda: server.client().info("memory")[used] < sent, "the input to be forgotten")


@pytest.mark.own
@pytest.mark.options("--timeout", "2")
def test_who_goes_on_sending_is_not_idle(server):
    """A command that comes byte by byte."""
    with server.raw() as slow, server.raw() as idle:
        slow.send(b"*2\r\n$4\r\nPING\r\n$1000000\r\n")
        ended = False
        sent = 0
        while not ended:  # until the other one, which began later, was closed
            slow.send(b"x")
            sent += 1
            ended = bool(select.select([idle.socket], [], [], 0.01)[0])
        slow.send(b"x" * (1_000_000 - sent) + b"\r\n")
        assert slow.reply() == b"x" * 1_000_000


MILLION = 1_000_000


def receive(connection, count):
    chunks, received = [], 0
    while received < count:
        chunk = connection.recv(1 << 20)
        assert chunk, f"closed after {received} of {count} bytes"
        chunks.append(chunk)
        received += len(chunk)
    return b"".join(chunks)


@pytest.mark.own
@pytest.mark.parametrize("reads", [True, False], ids=["read", "unread"])
def test_a_million_commands_in_one_pipeline_are_answered_in_order_in_little_memory(server, reads):
    """Replies are read while commands are sent, or only when all are sent and some answered."""
    process = psutil.Process(server.process.pid)
    client = server.client()
    client.set("other", 0)
    before = process.memory_info().rss
    commands = b"".join(
        b"SET k %d\r\nGET k\r\n" % (number % 10) for number in range(MILLION // 2)
    )
    replies = b"".join(b"+OK\r\n$1\r\n%d\r\n" % (number % 10) for number in range(MILLION // 2))
    with server.raw() as piped:
        sender = threading.Thread(target=piped.socket.sendall, args=(commands,))
        sender.start()
        if not reads:
            sender.join()
        for number in range(100):
            assert client.incr("other") == number + 1
        # What waits: input of a unit's worth, replies of the unread (5.5 MB), dirty memory.
        assert SANITIZED or process.memory_info().rss < before + 64 * 2**20
        assert receive(piped.socket, len(replies)) == replies
        sender.join()
    assert SANITIZED or process.memory_info().rss < before + 96 * 2**20
