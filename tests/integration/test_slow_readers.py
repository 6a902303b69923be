"""A slow read delays nobody else. The hook `test-hook-dir` holds KEYS as long as a file exists."""

import select

import pytest
from support import encode, wait_for

pytestmark = pytest.mark.own


@pytest.fixture
def hooks(tmp_path):
    folder = tmp_path / "hooks"
    folder.mkdir()
    return folder


@pytest.fixture
def held(make_server, hooks):
    """(server, connection whose KEYS is held)"""
    server = make_server("--test-hook-dir", hooks).start()
    server.client().mset({f"k{n}": n for n in range(100)})
    (hooks / "keys.hold").touch()
    connection = server.raw()
    connection.send(encode("KEYS", "*"))
    wait_for((hooks / "keys.held").exists, "KEYS to arrive at the hook")
    yield server, connection
    (hooks / "keys.hold").unlink(missing_ok=True)
    connection.close()


def silent(connection):
    return not connection.buffer and not select.select([connection.socket], [], [], 0)[0]


def test_ping_is_answered_while_a_keys_is_held(held, hooks):
    server, slow = held
    others = [server.raw() for _ in range(16)]
    for other in others:
        assert other.command("PING") == "PONG"
    assert silent(slow)
    (hooks / "keys.hold").unlink()
    assert len(slow.reply()) == 100
    for other in others:
        other.close()


def test_reads_and_writes_are_answered_while_a_keys_is_held(held, hooks):
    server, slow = held
    client = server.client()
    for number in range(200):
        assert client.set(f"new:{number}", number)
        assert client.get(f"new:{number}") == str(number).encode()
    with client.pipeline() as pipeline:
        assert pipeline.set("left", 1).set("right", 1).execute() == [True, True]
    assert client.dbsize() == 302
    assert silent(slow)
    (hooks / "keys.hold").unlink()
    keys = slow.reply()
    assert {f"k{n}".encode() for n in range(100)} <= set(keys)
    assert (b"left" in keys) == (b"right" in keys)


def test_what_follows_a_held_keys_on_its_connection_waits_and_keeps_its_order(held, hooks):
    server, slow = held
    slow.send(encode("SET", "after", "1") + encode("GET", "after") + encode("PING"))
    assert server.client().ping()
    assert silent(slow)
    (hooks / "keys.hold").unlink()
    assert b"after" not in slow.reply()
    assert [slow.reply() for _ in range(3)] == ["OK", b"1", "PONG"]


def test_a_client_that_leaves_during_its_keys_harms_nobody(held, hooks):
    server, slow = held
    slow.close()
    assert server.client().ping()
    (hooks / "keys.hold").unlink()
    client = server.client()
    assert client.ping()
    assert len(client.keys()) == 100


def test_a_client_killed_during_its_keys_gets_no_answer(held, hooks):
    server, slow = held
    client = server.client()
    host, port = slow.socket.getsockname()
    assert client.execute_command("CLIENT", "KILL", "ADDR", f"{host}:{port}") == 1
    (hooks / "keys.hold").unlink()
    assert slow.rest() == b""
    assert len(client.keys()) == 100
