"""Data larger than memory: what would wait for the disk waits in the reader pool.

The regime is forced (disk-reads pool), and the pages of the data file are thrown out of memory
before the server starts: every first read of a leaf then waits for the disk.
"""

import ctypes
import mmap
import os
import pathlib
import select

import pytest
from support import PANDOD, Hook, encode, wait_for

# Builds with a sanitizer hold the data file in memory of their own, unless made with IMAGE=mapped.
IN_MEMORY = {"address", "thread"} & set(pathlib.Path(PANDOD).parts)
pytestmark = [
    pytest.mark.own,
    pytest.mark.skipif(bool(IN_MEMORY), reason="this build never reads the data file from the disk"),
]

KEYS = 20000
KEY = "key:{:06d}".format


def value(number):
    return (b"%06d" % number) * 20


def drop_from_memory(path):
    """Throws the file's pages out of memory; returns how many are left."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        size = os.fstat(file.fileno()).st_size
        pages = (size + mmap.PAGESIZE - 1) // mmap.PAGESIZE
        there = (ctypes.c_ubyte * pages)()
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
        address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, file.fileno(), 0)
        assert libc.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), there) == 0
        libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(size))
        return sum(page & 1 for page in there)


def chill(server):
    """Starts the server over data of which nothing is in memory."""
    server.stop()
    if drop_from_memory(server.directory / "pando.db") > 0:
        pytest.skip(f"the pages of files in {server.directory} cannot be thrown out of memory")
    return server.start()


def fill(server):
    client = server.client()
    with client.pipeline(transaction=False) as pipeline:
        for number in range(KEYS):
            pipeline.set(KEY(number), value(number))
            if number % 1000 == 999:
                pipeline.execute()
        for number in range(0, KEYS, 500):
            pipeline.pexpire(KEY(number), 10**9 + number)
        pipeline.execute()


@pytest.fixture
def cold(make_server, request):
    """A server with KEYS keys, none of whose leaves is in memory."""
    marker = request.node.get_closest_marker("options")
    server = make_server(*(marker.args if marker else ()), "--disk-reads", "pool").start()
    fill(server)
    return chill(server)


def figure(server, name):
    return int(server.client().info()[name])


def disk_reads(server):
    return figure(server, "reads_sent_to_pool_for_disk")


def test_reads_of_cold_keys_are_executed_in_the_pool_and_answered_right(cold):
    client = cold.client()
    before = disk_reads(cold)
    for number in range(100, KEYS, 400):
        assert client.get(KEY(number)) == value(number)
        assert client.get(KEY(number) + "x") is None
    after = disk_reads(cold)
    assert 50 <= after - before <= 110  # one for each leaf, one or none for its neighbour, INFO
    assert figure(cold, "disk_regime") == 1
    assert figure(cold, "residency_checks") > 50


def test_a_key_that_was_read_is_hot_and_does_not_go_to_the_pool_again(cold):
    client = cold.client()
    client.get(KEY(4321))
    before = disk_reads(cold)
    for _ in range(100):
        assert client.get(KEY(4321)) == value(4321)
    assert disk_reads(cold) - before == 1  # INFO itself, which names no key


def test_every_kind_of_short_read_answers_for_cold_keys(cold):
    with cold.raw() as raw:
        assert raw.command("STRLEN", KEY(300)) == 120
        assert raw.command("TYPE", KEY(800)) == "string"
        assert 0 < raw.command("PTTL", KEY(1500)) <= 10**9 + 1500
        assert raw.command("EXISTS", KEY(2000), KEY(9000), "none") == 2
        assert raw.command("MGET", KEY(2500), KEY(7000)) == [value(2500), value(7000)]
        assert raw.command("GETRANGE", KEY(3100), 0, 5) == b"003100"
        assert raw.command("OBJECT", "ENCODING", KEY(3700)) == b"raw"
        assert raw.command("GET", "nothing") is None
        cursor, keys = raw.command("SCAN", 0, "COUNT", 10)
        assert len(keys) == 10
    assert disk_reads(cold) >= 8


def test_a_pipeline_of_cold_and_hot_keys_keeps_its_order(cold):
    numbers = [number * 7919 % KEYS for number in range(3000)]
    with cold.raw() as raw:
        raw.send(b"".join(encode("GET", KEY(n)) + encode("ECHO", n) for n in numbers))
        for number in numbers:
            assert raw.reply() == value(number)
            assert raw.reply() == b"%d" % number
    assert disk_reads(cold) > 300


def test_exec_of_cold_reads_and_of_cold_writes(cold):
    with cold.raw() as raw:
        raw.send(encode("MULTI") + encode("GET", KEY(100)) + encode("GET", KEY(9100)) + encode("EXEC"))
        assert [raw.reply() for _ in range(3)] == ["OK", "QUEUED", "QUEUED"]
        assert raw.reply() == [value(100), value(9100)]
        assert disk_reads(cold) >= 1
        before = figure(cold, "writes_walked_ahead")
        assert raw.command("MULTI") == "OK"
        assert raw.command("APPEND", KEY(5000), "!") == "QUEUED"
        assert raw.command("GET", KEY(12000)) == "QUEUED"
        assert raw.command("DEL", KEY(15000)) == "QUEUED"
        assert raw.command("EXEC") == [121, value(12000), 1]
    assert figure(cold, "writes_walked_ahead") - before == 2


def test_writes_to_cold_keys_are_walked_ahead_and_right(cold):
    client = cold.client()
    changed = range(50, KEYS, 250)
    with client.pipeline(transaction=False) as pipeline:
        for number in changed:
            pipeline.append(KEY(number), "more")
        assert pipeline.execute() == [124] * len(changed)
    assert figure(cold, "writes_walked_ahead") >= len(changed)
    for number in range(10, KEYS, 500):  # with and without a row of the index of expiry
        assert client.set(KEY(number - 10), "new")
        assert client.delete(KEY(number)) == 1
    cold.crash_and_restart()
    client = cold.client()
    for number in changed:
        if number % 500 != 0:
            assert client.get(KEY(number)) == value(number) + b"more"
    for number in range(10, KEYS, 500):
        assert client.get(KEY(number - 10)) == b"new"
        assert client.ttl(KEY(number - 10)) == -1
        assert client.get(KEY(number)) is None


def test_strings_in_chunks_are_read_and_written(cold):
    client = cold.client()
    client.set("long", b"x" * 300000)
    chill(cold)
    client = cold.client()
    with cold.raw() as raw:
        assert raw.command("GETRANGE", "long", 100000, 100009) == b"x" * 10
        assert raw.command("APPEND", "long", "end") == 300003
        assert raw.command("GETRANGE", "long", -5, -1) == b"xxend"
        assert raw.command("GET", "long") == b"x" * 300000 + b"end"
    assert disk_reads(cold) >= 2
    assert figure(cold, "writes_walked_ahead") >= 1


def test_a_write_to_a_hot_key_goes_to_the_writer_at_once(cold):
    client = cold.client()
    client.set(KEY(7777), "x" * 120)
    before = figure(cold, "writes_walked_ahead")
    for _ in range(100):
        client.set(KEY(7777), "y" * 120)
    assert figure(cold, "writes_walked_ahead") == before


def test_what_expires_is_read_ahead_of_the_writer(cold):
    client = cold.client()
    before = figure(cold, "writes_walked_ahead")
    with client.pipeline(transaction=False) as pipeline:
        for number in range(50, KEYS, 200):
            pipeline.pexpire(KEY(number), 20)
        assert pipeline.execute() == [True] * 100
    wait_for(lambda: client.dbsize() == KEYS - 100, "100 expired keys to leave without being read")
    # Once for PEXPIRE, once for what it leads to.
    wait_for(lambda: figure(cold, "expired_keys") == 100, "100 expired keys to be removed")
    assert figure(cold, "writes_walked_ahead") - before >= 200


def silent(connection):
    return not connection.buffer and not select.select([connection.socket], [], [], 0)[0]


def make_held(make_server, tmp_path, hook_name, *options):
    """A cold server in which the first job of that name is held."""
    hooks = tmp_path / "hooks"
    server = make_server("--test-hook-dir", hooks, "--disk-reads", "pool", *options).start()
    fill(server)
    chill(server)
    return server, Hook(hooks, hook_name)


def test_a_cold_read_that_waits_delays_no_other_connection(make_server, tmp_path):
    server, hook = make_held(make_server, tmp_path, "pool-get")
    with server.raw() as slow, server.raw() as other:
        assert other.command("STRLEN", KEY(600)) == 120
        slow.send(encode("GET", KEY(15000)) + encode("PING"))
        hook.wait()
        assert other.command("PING") == "PONG"
        assert other.command("GET", KEY(600)) == value(600)
        assert other.command("SET", KEY(600), value(600)) == "OK"
        assert other.command("STRLEN", KEY(11000)) == 120
        assert silent(slow)
        hook.release()
        assert [slow.reply(), slow.reply()] == [value(15000), "PONG"]


def test_a_write_whose_pages_are_being_read_delays_no_other_writer(make_server, tmp_path):
    server, hook = make_held(make_server, tmp_path, "walk-set")
    with server.raw() as slow, server.raw() as other:
        slow.send(encode("SET", KEY(15000), "new") + encode("GET", KEY(15000)))
        hook.wait()
        assert other.command("APPEND", KEY(600), "!") == 121
        assert other.command("GET", KEY(15000)) == value(15000)
        assert silent(slow)
        hook.release()
        assert [slow.reply(), slow.reply()] == ["OK", b"new"]


def test_long_reads_leave_a_thread_for_those_that_wait_for_the_disk(make_server, tmp_path):
    server, hook = make_held(make_server, tmp_path, "pool-keys", "--reader-threads", "2")
    with server.raw() as first, server.raw() as second, server.raw() as other:
        first.send(encode("KEYS", "key:0000*"))
        hook.wait()
        second.send(encode("KEYS", "key:0001*"))
        assert other.command("GET", KEY(15000)) == value(15000)
        assert silent(first) and silent(second)
        hook.release()
        assert len(first.reply()) == 100
        assert len(second.reply()) == 100


def test_a_client_that_leaves_while_its_pages_are_read_harms_nobody(make_server, tmp_path):
    server, hook = make_held(make_server, tmp_path, "walk-set")
    slow = server.raw()
    slow.send(encode("SET", KEY(15000), "new"))
    hook.wait()
    slow.close()
    assert server.client().ping()
    hook.release()
    wait_for(lambda: server.client().get(KEY(15000)) == b"new", "the write of the client that left")


def test_the_setting_changes_where_cold_keys_are_read(cold):
    client = cold.client()
    client.config_set("disk-reads", "inline")
    assert figure(cold, "disk_regime") == 0
    before = disk_reads(cold)
    assert client.get(KEY(600)) == value(600)
    client.set(KEY(1600), "new")
    assert disk_reads(cold) == before
    assert figure(cold, "writes_walked_ahead") == 0
    client.config_set("disk-reads", "pool")
    assert client.get(KEY(2600)) == value(2600)
    assert disk_reads(cold) > before
    client.config_set("disk-reads", "auto")
    assert figure(cold, "disk_regime") == 0  # the data are small
