"""A slow read delays nobody else: KEYS is held in the reader pool, others are served."""

import select

import pytest
from support import Hook, encode

pytestmark = pytest.mark.own


@pytest.fixture
def held(make_server, tmp_path):
    """(server, connection whose KEYS is held, the hook that holds it)"""
    hook = Hook(tmp_path / "hooks", "pool-keys")
    server = make_server("--test-hook-dir", hook.directory).start()
    server.client().mset({f"k{n}": n for n in range(100)})
    connection = server.raw()
    connection.send(encode("KEYS", "*"))
    hook.wait()
    yield server, connection, hook
    hook.release()
    connection.close()


def silent(connection):
    return not connection.buffer and not select.select([connection.socket], [], [], 0)[0]


def test_ping_is_answered_while_a_keys_is_held(held):
    server, slow, hook = held
    others = [server.raw() for _ in range(16)]
    for other in others:
        assert other.command("PING") == "PONG"
    assert silent(slow)
    hook.release()
    assert len(slow.reply()) == 100
    for other in others:
        other.close()


def test_reads_and_writes_are_answered_while_a_keys_is_held(held):
    server, slow, hook = held
    client = server.client()
    for number in range(200):
        assert client.set(f"new:{number}", number)
        assert client.get(f"new:{number}") == str(number).encode()
    with client.pipeline() as pipeline:
        assert pipeline.set("left", 1).set("right", 1).execute() == [True, True]
    assert client.dbsize() == 302
    assert silent(slow)
    hook.release()
    keys = slow.reply()
    assert {f"k{n}".encode() for n in range(100)} <= set(keys)
    assert (b"left" in keys) == (b"right" in keys)


def test_what_follows_a_held_keys_on_its_connection_waits_and_keeps_its_order(held):
    server, slow, hook = held
    slow.send(encode("SET", "after", "1") + encode("GET", "after") + encode("PING"))
    assert server.client().ping()
    assert silent(slow)
    hook.release()
    assert b"after" not in slow.reply()
    assert [slow.reply() for _ in range(3)] == ["OK", b"1", "PONG"]


def test_a_client_that_leaves_during_its_keys_harms_nobody(held):
    server, slow, hook = held
    slow.close()
    assert server.client().ping()
    hook.release()
    client = server.client()
    assert client.ping()
    assert len(client.keys()) == 100


def test_a_client_killed_during_its_keys_gets_no_answer(held):
    server, slow, hook = held
    client = server.client()
    host, port = slow.socket.getsockname()
    assert client.execute_command("CLIENT", "KILL", "ADDR", f"{host}:{port}") == 1
    hook.release()
    assert slow.rest() == b""
    assert len(client.keys()) == 100
