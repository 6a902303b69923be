"""A slow read delays nobody else: KEYS is held in the reader pool, others are served."""

import itertools
import os
import select
import threading

import pytest
from support import Hook, encode, wait_for

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


# ---- a read that keeps the memory which writing needs -------------------------------------------

DIRTY = 4 << 20


def replace(client, values, size, step=100):
    """Gives every key a new value, a few at a time; yields in between."""
    keys = list(values)
    for at in range(0, len(keys), step):
        with client.pipeline(transaction=False) as pipeline:
            for key in keys[at : at + step]:
                pipeline.set(key, b"n" * size)
            pipeline.execute()
        yield


def snapshots(client):
    info = client.info("snapshots")
    return {name: info[name] for name in ("snapshots_asked", "snapshots_moved", "moved_pages")}


@pytest.mark.parametrize(
    "command", [("KEYS", "*"), ("SCAN", "0", "COUNT", "1000000")], ids=["keys", "scan"]
)
def test_a_long_read_lets_go_of_dirty_memory_and_still_sees_its_state(
    make_server, tmp_path, command
):
    name = command[0].lower()
    step = Hook(tmp_path / "hooks", f"step-{name}")
    moved = Hook(tmp_path / "hooks", f"moved-{name}")
    server = make_server("--test-hook-dir", step.directory, "--dirty-memory", str(DIRTY)).start()
    client = server.client()
    # A third of dirty memory: no checkpoint has been made of it when the read begins.
    keys = {f"key:{n:05}": None for n in range(4000)}
    for _ in replace(client, keys, 280):
        pass
    slow = server.raw()
    slow.send(encode(*command))
    step.wait()  # the read is in its walk, after the first key
    writing = replace(client, keys, 281, step=20)
    while snapshots(client)["snapshots_asked"] == 0:
        next(writing)  # ends the test if all was replaced, and nobody asked
    step.release()
    moved.wait()  # the read is between two steps again, and has moved
    assert snapshots(client)["snapshots_moved"] == 1
    assert snapshots(client)["moved_pages"] > 100
    # Far more than dirty memory holds. Each of these would wait for the read, were it in the way.
    for turn in range(3):
        for _ in replace(client, {f"new:{turn}:{n % 100}": None for n in range(4000)}, 3000):
            pass
        for _ in replace(client, keys, 100 + turn):
            pass
    assert client.delete(*list(keys)[:2000]) == 2000
    assert silent(slow)
    moved.release()
    reply = slow.reply()
    if name == "scan":
        assert reply[0] == b"0"
        reply = reply[1]
    assert sorted(reply) == [key.encode() for key in keys]
    slow.close()


# ---- large replies beside what keeps the threads of the pool ------------------------------------


def test_a_large_reply_goes_on_while_every_thread_of_the_pool_is_held(make_server, tmp_path):
    hook = Hook(tmp_path / "hooks", "pool-keys")
    server = make_server("--test-hook-dir", hook.directory, "--reader-threads", "1").start()
    value = bytes(range(256)) * (96 << 10)
    client = server.client()
    client.set("k", value)
    reader, keys = server.raw(), server.raw()
    reader.send(encode("GET", "k"))
    while client.info("writer")["reader_pieces"] == 0:
        pass  # its first command has run: from now on it needs pieces only
    keys.send(encode("KEYS", "*"))
    hook.wait()
    assert reader.reply() == value
    hook.release()
    assert keys.reply() == [b"k"]
    reader.close()
    keys.close()


def test_durability_changes_beside_writers_that_wait_for_the_memory_of_slow_readers(make_server):
    """CONFIG SET durability waits for the writer, which waits for dirty memory. All of this hung."""
    server = make_server(
        "--reader-threads", "1", "--dirty-memory", str(DIRTY), "--durability", "everysec"
    ).start()
    values = [bytes([n]) * 900000 for n in (1, 2)]
    client = server.client()
    client.set("k", values[0])
    stopped = threading.Event()
    errors = []

    def write(number):
        try:
            with server.client() as own:
                for turn in itertools.count():
                    if stopped.is_set():
                        return
                    own.set("k", values[(turn + number) % 2])
                    own.set(f"other:{turn % 3000}", b"x" * (turn % 2000))
        except Exception as error:  # pylint: disable=broad-except
            errors.append(error)

    writers = [threading.Thread(target=write, args=(n,)) for n in range(3)]
    for writer in writers:
        writer.start()
    try:
        for turn in range(60):
            readers = [server.raw() for _ in range(3)]
            for reader in readers:
                reader.send(encode("GET", "k"))
            for level in ("everysec", "always", "none"):
                assert client.config_set("durability", level)
            for reader in readers:
                assert reader.reply() in values
                reader.close()
    finally:
        stopped.set()
        for writer in writers:
            writer.join()
    assert not errors, errors


def test_who_waits_for_room_in_the_writers_queue_is_not_idle(make_server, tmp_path):
    """The writer is held: its EXEC waits for a CONFIG REWRITE, which reads a pipe."""
    file = tmp_path / "pando.conf"
    file.write_text("hz 10\n")
    server = make_server(config=file).start()
    client, rewriter, holder = server.client(), server.raw(), server.raw()
    file.unlink()
    os.mkfifo(file)
    client.config_set("timeout", 2)
    rewriter.send(encode("CONFIG", "REWRITE"))
    pipe = wait_for(lambda: open_to_write(file), "the file to be read")
    holder.send(encode("MULTI") + encode("SET", "k", "1") + encode("CONFIG", "SET", "hz", "10"))
    holder.send(encode("EXEC"))
    assert [holder.reply() for _ in range(3)] == ["OK", "QUEUED", "QUEUED"]
    writers = [server.raw() for _ in range(100)]
    for number, writer in enumerate(writers):
        writer.send(encode("SET", f"w:{number}", b"w" * 900000))
    wait_for(lambda: client.info("writer")["writer_queued_bytes"] > 64 << 20, "a full queue")
    begin = client.info("server")["uptime_in_seconds"]
    wait_for(lambda: client.info("server")["uptime_in_seconds"] >= begin + 5, "more than the timeout")
    os.close(pipe)
    assert rewriter.reply() == "OK" and holder.reply() == ["OK", "OK"]
    for writer in writers:
        assert writer.reply() == "OK"
        writer.close()
    rewriter.close()
    holder.close()


def open_to_write(pipe):
    """A descriptor, once somebody reads."""
    try:
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None
