"""Strings far larger than a page: stored in chunks, written in steps, read in pieces.

Nothing here measures time. That others are served is shown by an order of events (the test hooks
of the reader pool hold a piece) or by counters of INFO; memory is what the kernel says of the process.
"""

import pathlib
import random
import socket
import threading

import pytest
from support import PANDOD, Hook, RawClient, ReplyError, encode, wait_for

CHUNK = 16320
MIB = 1 << 20
SIZES = [CHUNK - 1, CHUNK, CHUNK + 1, 65536, 65537, 5 * CHUNK, 5 * CHUNK + 7, MIB, MIB + 1, 3 * MIB]


def random_bytes(count, seed=1):
    return random.Random(seed).randbytes(count)


def anonymous_memory(server):
    """Bytes of memory that belong to the process alone (files mapped are not counted)."""
    with open(f"/proc/{server.process.pid}/status") as status:
        for line in status:
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    raise AssertionError("no RssAnon")


# A sanitizer's own memory is no measure of anything, and 512 MiB through it take minutes.
SANITIZED = any(n in part for part in pathlib.Path(PANDOD).parts for n in ("address", "thread"))
LARGEST = 32 if SANITIZED else 512  # MiB


def assert_memory_below(server, limit):
    assert SANITIZED or anonymous_memory(server) < limit


def info(server):
    with server.client() as client:
        return client.info("all")


def has_no_rows(server):
    """All rows of large strings are gone: what is left in the store is keys and a counter."""
    return info(server)["entries"] <= 1


class Reader(threading.Thread):
    """Reads a reply in the background and compares it with a pattern that repeats."""

    def __init__(self, raw, pattern, count):
        super().__init__()
        self.raw, self.pattern, self.count = raw, pattern, count
        self.error = None

    def run(self):
        try:
            length = len(self.pattern) * self.count
            assert self.raw._line() == b"$%d" % length
            left, at = length, 0
            double = self.pattern * 2
            data = self.raw.buffer
            while True:
                part = data[:left]
                for begin in range(0, len(part), len(self.pattern)):
                    piece = part[begin : begin + len(self.pattern)]
                    assert double[at : at + len(piece)] == piece
                    at = (at + len(piece)) % len(self.pattern)
                left -= len(part)
                if left == 0:
                    break
                data = self.raw.socket.recv(MIB)
                assert data, "closed in the middle"
            self.raw.buffer = data[len(part) :]
            self.raw._exactly(0)
        except BaseException as error:  # pylint: disable=broad-except
            self.error = error

    def finish(self):
        self.join()
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("size", SIZES)
def test_every_command_on_strings_reads_back_what_it_wrote(client, size):
    value = bytearray(random_bytes(size))
    assert client.set("k", bytes(value))
    assert client.get("k") == value and client.strlen("k") == size
    assert client.append("k", b"tail") == size + 4
    value += b"tail"
    assert client.setrange("k", size // 3, b"X" * 20000) == max(size // 3 + 20000, len(value))
    value[size // 3 : size // 3 + 20000] = b"X" * 20000
    assert client.get("k") == value
    assert client.getrange("k", 1, -2) == value[1:-1]
    assert client.getrange("k", -CHUNK - 1, -CHUNK + 1) == value[-CHUNK - 1 : -CHUNK + 2]
    assert client.mget("k", "none", "k") == [value, None, value]
    assert client.getset("k", b"x") == value and client.get("k") == b"x"
    client.psetex("k", 10**9, bytes(value))
    assert client.set("k", b"y", get=True) == value
    client.mset({"k": bytes(value), "j": bytes(value)})
    assert client.getex("k", persist=True) == value
    assert client.rename("k", "j") and client.exists("k") == 0
    assert client.getdel("j") == value and client.exists("j") == 0
    assert client.setnx("k", bytes(value)) and not client.setnx("k", b"z")
    assert client.get("k") == value


def test_long_strings_are_no_numbers(raw):
    raw.command("SET", "k", b"1" * (2 * CHUNK))
    raw.command("APPEND", "k", "1")
    assert raw.command("INCR", "k") == ReplyError("ERR value is not an integer or out of range")
    assert raw.command("INCRBYFLOAT", "k", "1") == ReplyError("ERR value is not a valid float")
    assert raw.command("OBJECT", "ENCODING", "k") == b"raw"
    assert raw.command("TYPE", "k") == "string"


def test_a_gap_that_setrange_leaves_is_zeros_and_costs_nothing(server, client):
    before = info(server)["arena_slots_used"] if "arena_slots_used" in info(server) else None
    assert client.setrange("k", 400 * MIB, b"end") == 400 * MIB + 3
    assert client.strlen("k") == 400 * MIB + 3
    assert client.getrange("k", 0, 9) == bytes(10)
    assert client.getrange("k", -5, -1) == b"\0\0end"
    assert info(server)["entries"] <= 4
    if before is not None:
        assert info(server)["arena_slots_used"] < before + 64


def test_appending_to_100_mib_touches_one_chunk_and_the_record(server, client):
    block = random_bytes(MIB)
    client.set("k", block * 100)
    before = info(server)
    assert client.append("k", b"0123456789") == 100 * MIB + 10
    after = info(server)
    assert after["ops"] - before["ops"] == 2
    assert after["log_bytes_written"] - before["log_bytes_written"] < 2 * CHUNK + 4096
    assert client.getrange("k", -MIB - 10, -1) == block + b"0123456789"


def test_strings_survive_kill_9_and_leave_nothing_when_they_are_removed(server):
    value = random_bytes(3 * MIB)
    with server.client() as client:
        client.set("a", value)
        client.append("a", b"tail")
        client.set("b", value)
    server.crash_and_restart()
    with server.client() as client:
        assert client.get("a") == value + b"tail" and client.get("b") == value
        client.delete("a")
        client.set("b", "short")
        client.delete("b")
        wait_for(lambda: has_no_rows(server), "the rows of removed strings to go")
    server.crash_and_restart()
    assert has_no_rows(server)


@pytest.mark.own
@pytest.mark.options("--proto-max-bulk-len", "2mb")
def test_proto_max_bulk_len_bounds_arguments_and_what_strings_grow_to(server):
    text = "ERR string exceeds maximum allowed size (proto-max-bulk-len)"
    with server.raw() as raw:
        assert raw.command("SET", "k", b"x" * (2 * MIB)) == "OK"
        assert raw.command("APPEND", "k", "x") == ReplyError(text)
        assert raw.command("SETRANGE", "k", 2 * MIB, "x") == ReplyError(text)
        assert raw.command("SETRANGE", "k", 2**62, "x") == ReplyError(text)
        assert raw.command("CONFIG", "SET", "proto-max-bulk-len", "3mb") == "OK"
        assert raw.command("APPEND", "k", "x") == 2 * MIB + 1
        raw.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (3 * MIB + 1))
        assert raw.rest() == b"-ERR Protocol error: invalid bulk length\r\n"


@pytest.mark.own
@pytest.mark.options("--dirty-memory", "64mb")
def test_512_mib_are_stored_and_read_back_and_600_mib_refused(server):
    pattern = random_bytes(MIB)
    with server.raw() as raw:
        raw.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (600 * MIB))
        assert raw.rest() == b"-ERR Protocol error: invalid bulk length\r\n"
    raw, other = server.raw(), server.raw()
    raw.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (LARGEST * MIB))
    for _ in range(LARGEST):
        raw.send(pattern)
    raw.send(b"\r\n")
    # While it is written, in hundreds of steps, others write and are answered.
    wait_for(lambda: info(server)["writer_value_steps"] > 0, "the value to be written")
    for i in range(20):
        assert other.command("SET", f"other:{i}", "x") == "OK"
    steps = info(server)["writer_value_steps"]
    assert raw.reply() == "OK"
    assert info(server)["writer_value_steps"] == -(-LARGEST * MIB // (128 * CHUNK))
    assert SANITIZED or steps < info(server)["writer_value_steps"]  # few steps may be over soon
    assert_memory_below(server, 64 * MIB + 64 * MIB)  # the value is gone from memory
    reader = Reader(raw, pattern, LARGEST)
    raw.send(encode("GET", "k"))
    reader.start()
    reader.finish()
    assert_memory_below(server, 64 * MIB + 64 * MIB)
    assert raw.command("DEL", "k") == 1
    wait_for(lambda: info(server)["entries"] < 30, "its rows to go")
    raw.close()
    other.close()


def stuck_reader(server, *words):
    """A client with a small receive buffer that sends a command and reads nothing."""
    raw = RawClient.__new__(RawClient)
    raw.socket = socket.socket()
    raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    raw.socket.settimeout(60)
    raw.socket.connect(("127.0.0.1", server.port))
    raw.buffer = b""
    raw.send(encode(*words))
    return raw


@pytest.mark.own
@pytest.mark.options("--client-output-buffer-limit", "normal 1mb 512kb 1")
def test_a_reply_in_pieces_is_what_the_value_was_whatever_is_written_meanwhile(server):
    value = random_bytes(24 * MIB)
    with server.client() as client:
        client.set("k", value)
        before = anonymous_memory(server)
        readers = [stuck_reader(server, "GET", "k") for _ in range(8)]
        wait_for(lambda: info(server)["reader_pieces"] >= 8, "the first pieces")
        client.setrange("k", 20 * MIB, b"changed")
        client.set("k", "short")
        for raw in readers:
            raw.send(encode("GET", "k") + encode("PING"))
        assert_memory_below(server, before + 8 * 2 * MIB)
        for raw in readers:
            assert raw.reply() == value
            assert raw.reply() == b"short" and raw.reply() == "PONG"
            raw.close()


@pytest.mark.own
def test_old_values_of_writing_commands_come_in_pieces_too(server):
    value = random_bytes(20 * MIB)
    with server.client() as client:
        client.set("a", value)
        client.set("b", value)
        client.set("c", value)
        readers = [
            stuck_reader(server, "GETDEL", "a"), stuck_reader(server, "GETSET", "b", "x"),
            stuck_reader(server, "SET", "c", "x", "GET"),
        ]
        wait_for(lambda: info(server)["reader_pieces"] >= 3, "the first pieces")
        assert client.get("a") is None and client.mget("b", "c") == [b"x", b"x"]
        client.flushall()
        for raw in readers:
            raw.send(encode("PING"))
            assert raw.reply() == value and raw.reply() == "PONG"
            raw.close()
        wait_for(lambda: has_no_rows(server), "the rows to go")


@pytest.mark.own
def test_large_replies_keep_their_place_in_a_pipeline_and_in_exec(raw):
    value, other = random_bytes(2 * MIB), random_bytes(300000, seed=2)
    raw.send(
        encode("SET", "a", value) + encode("GET", "a") + encode("SET", "b", other)
        + encode("MGET", "a", "none", "b") + encode("GETSET", "a", "1") + encode("GET", "a")
        + encode("SET", "a", value) + encode("MULTI") + encode("GET", "a") + encode("SELECT", "1")
        + encode("GET", "a") + encode("SELECT", "0") + encode("GETRANGE", "a", "10", "-10")
        + encode("EXEC") + encode("GETDEL", "a") + encode("EXISTS", "a")
    )
    expected = [
        "OK", value, "OK", [value, None, other], value, b"1", "OK", "OK", "QUEUED", "QUEUED",
        "QUEUED", "QUEUED", "QUEUED", [value, "OK", None, "OK", value[10:-9]], value, 0,
    ]
    for answer in expected:
        assert raw.reply() == answer


@pytest.mark.own
@pytest.mark.options("--client-output-buffer-limit", "normal 8mb 0 0")
def test_an_exec_that_writes_answers_large_values_up_to_the_output_limit(server):
    value = random_bytes(3 * MIB)
    with server.raw() as raw, server.raw() as other:
        for gets in (2, 3):
            raw.send(encode("MULTI") + encode("SET", "k", value) + encode("GET", "k") * gets)
            raw.send(encode("EXEC"))
            if gets == 2:
                assert [raw.reply() for _ in range(5)][-1] == ["OK", value, value]
        assert b"$3145728" not in raw.rest()[-100:]
        assert other.command("STRLEN", "k") == 3 * MIB


@pytest.mark.own
def test_a_piece_that_is_held_holds_nobody_else(make_server, tmp_path):
    hooks = tmp_path / "hooks"
    hook = Hook(hooks, "pool-piece")
    server = make_server("--test-hook-dir", str(hooks)).start()
    value = random_bytes(2 * MIB)
    with server.raw() as slow, server.raw() as other:
        assert other.command("SET", "k", value) == "OK"
        slow.send(encode("GET", "k"))
        hook.wait()
        assert other.command("PING") == "PONG"
        assert other.command("SET", "other", "x") == "OK"
        assert other.command("SET", "k", "x") == "OK"
        hook.release()
        assert slow.reply() == value


@pytest.mark.own
def test_readers_that_are_stuck_end_with_client_kill_disconnection_and_shutdown(make_server):
    server = make_server("--shutdown-timeout", "1").start()
    value = random_bytes(24 * MIB)
    with server.client() as client:
        client.set("k", value)
        readers = [stuck_reader(server, "GET", "k") for _ in range(3)]
        wait_for(lambda: info(server)["reader_pieces"] >= 3, "the first pieces")
        assert info(server)["snapshots"] >= 3
        address = "%s:%d" % readers[0].socket.getsockname()
        assert client.execute_command("CLIENT", "KILL", "ADDR", address) == 1
        wait_for(lambda: info(server)["connected_clients"] <= 4, "the killed client to go")
        readers[1].close()
        wait_for(lambda: info(server)["connected_clients"] <= 3, "the closed client to go")
        wait_for(lambda: info(server)["snapshots"] <= 2, "their snapshots to go")
    server.stop()
    readers[2].close()


@pytest.mark.own
@pytest.mark.options("--dirty-memory", "16mb")
def test_a_stuck_reader_does_not_keep_dirty_memory_from_the_writer(server):
    value = random_bytes(8 * MIB)
    with server.client() as client:
        client.set("k", value)
        raw = stuck_reader(server, "GET", "k")
        wait_for(lambda: info(server)["reader_pieces"] >= 1, "the first piece")
        for i in range(40):
            client.set(f"other:{i % 4}", value[: MIB + i])
        assert info(server)["snapshots_moved"] >= 1
        assert raw.reply() == value
        raw.close()


@pytest.mark.own
@pytest.mark.options("--max-snapshot-age", "1")
def test_a_reply_that_is_not_taken_in_time_ends_with_its_connection(server):
    value = random_bytes(24 * MIB)
    with server.client() as client:
        client.set("k", value)
        raw = stuck_reader(server, "GET", "k")
        wait_for(lambda: info(server)["snapshots_ended"] == 1, "its snapshot to be ended")
        assert len(raw.rest()) < len(value)
        wait_for(lambda: info(server)["connected_clients"] <= 2, "the client to go")
        assert "closed in the middle of a reply" in server.log()
        assert client.get("k") == value


@pytest.mark.own
def test_a_value_whose_client_is_killed_while_it_is_written_leaves_nothing(server):
    value = random_bytes(64 * MIB)
    with server.client() as client, server.raw() as raw:
        address = "%s:%d" % raw.socket.getsockname()
        raw.send(encode("SET", "k", value))
        wait_for(lambda: info(server)["writer_value_steps"] > 0, "the first step")
        assert client.execute_command("CLIENT", "KILL", "ADDR", address) == 1
        assert raw.rest() in (b"", b"+OK\r\n")  # it may have been in time
        client.delete("k")
        wait_for(lambda: has_no_rows(server), "the rows to go")


@pytest.mark.own
def test_values_of_clients_that_went_away_are_there_as_a_whole_or_not_at_all(server):
    value = random_bytes(16 * MIB)
    for i in range(4):
        with server.raw() as raw:
            raw.send(encode("SET", f"k{i}", value))
    with server.client() as client:
        wait_for(lambda: len(client.client_list()) == 1, "the clients to go")
        found = client.mget("k0", "k1", "k2", "k3")
        assert all(v in (None, value) for v in found)
        client.flushall()
        wait_for(lambda: has_no_rows(server), "the rows to go")


@pytest.mark.own
def test_flushall_while_a_value_is_written_leaves_the_value_whole(server):
    value = random_bytes(48 * MIB)
    with server.raw() as raw, server.client() as client:
        client.set("other", "x")
        raw.send(encode("SET", "k", value))
        wait_for(lambda: info(server)["writer_value_steps"] > 0, "the first step")
        client.flushall()
        assert raw.reply() == "OK"
        if client.exists("k"):  # else it was stored before
            assert info(server)["writer_value_steps"] > len(value) / (128 * CHUNK) + 1
            assert client.get("k") == value
            client.delete("k")
        wait_for(lambda: has_no_rows(server), "the rows to go")


def test_keys_of_a_mebibyte_are_keys_like_others(client):
    key, other = b"k" * MIB, b"k" * MIB + b"2"
    assert client.set(key, "v") and client.append(key, "w") == 2
    assert client.expire(key, 1000) and client.ttl(key) > 900
    assert client.keys("k*") == [key] and client.scan()[1] == [key] and client.randomkey() == key
    assert client.rename(key, other) and client.exists(key) == 0
    assert client.get(other) == b"vw" and client.ttl(other) > 900
    assert client.delete(other) == 1 and client.dbsize() == 0


@pytest.mark.own
def test_a_key_of_100_mib_is_stored_and_found_after_kill_9(server):
    key = b"k" * (100 * MIB)
    with server.client() as client:
        assert client.set(key, "v")
    server.crash_and_restart()
    with server.client() as client:
        assert client.get(key) == b"v"
        assert client.delete(key) == 1 and client.dbsize() == 0


def test_a_gibibyte_of_replies_that_nobody_reads_costs_one_client(server, client):
    value = random_bytes(64 * MIB)
    client.set("k", value)
    before = anonymous_memory(server)
    greedy = stuck_reader(server, "PING")
    assert greedy.reply() == "PONG"
    greedy.send(encode("GET", "k") * 16)
    for _ in range(50):
        assert client.ping() and client.set("other", "x")
    assert_memory_below(server, before + 32 * MIB)
    greedy.close()
    wait_for(lambda: info(server)["connected_clients"] <= 2, "the client to go")
