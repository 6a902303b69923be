"""Real input: Debian's large list of words, loaded, interrupted, continued, changed."""

import subprocess
import threading

import pytest
from support import IS_REDIS, LIMIT, encode, wait_for

PATH = "/usr/share/dict/american-english-huge"


@pytest.fixture(scope="module")
def words():
    with open(PATH, "rb") as file:
        listed = file.read().split()
    assert len(listed) > 300_000
    return listed


def commands(words, start, end):
    return b"".join(encode("SET", words[i], i) for i in range(start, end))


def pipe(server, data):
    """The output of `redis-cli --pipe` fed with the data; the server may die meanwhile."""
    return subprocess.run(
        ["redis-cli", "-p", str(server.port), "--pipe"], input=data, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, timeout=4 * LIMIT,
    ).stdout


def present(client, words):
    """How many words from the beginning are there; none may follow a missing one."""
    count = 0
    for start in range(0, len(words), 5000):
        some = words[start : start + 5000]
        values = client.mget(some)
        there = [value is not None for value in values]
        for index, value in enumerate(values):
            assert value in (None, str(start + index).encode()), some[index]
        assert there == sorted(there, reverse=True), "a gap: a later word is there, an earlier not"
        if any(there):
            assert count == start, "a gap between thousands"
            count = start + sum(there)
    return count


def kill_in_the_middle(server, words):
    data = commands(words, 0, len(words))
    feeder = threading.Thread(target=pipe, args=(server, data))
    feeder.start()
    client = server.client()
    wait_for(lambda: client.dbsize() > len(words) // 4, "a quarter of the words", 4 * LIMIT)
    seen = client.dbsize()
    server.kill()
    feeder.join()
    return seen


@pytest.mark.own
@pytest.mark.parametrize("level", ["always", "everysec"])
def test_loading_killed_in_the_middle_restarted_and_continued_is_complete(make_server, words, level):
    server = make_server("--durability", level).start()
    seen = kill_in_the_middle(server, words)
    server.start()
    client = server.client()
    count = present(client, words)
    assert seen <= count == client.dbsize()
    assert b"errors: 0" in pipe(server, commands(words, count, len(words)))
    assert present(client, words) == len(words) == client.dbsize()
    assert set(client.keys()) == set(words)
    server.crash_and_restart()
    assert present(server.client(), words) == len(words)


def write(server, words, start, done):
    client = server.client()
    for first in range(start, len(words), 2000):
        with client.pipeline(transaction=False) as pipeline:
            for index in range(first, min(first + 2000, len(words))):
                pipeline.set(words[index], index)
            pipeline.execute()
    done.set()


def rename_some(server, words, chosen):
    client = server.client()
    for word in chosen:
        assert client.rename(word, b"renamed:" + word)


def expire_some(server, forever, soon):
    client = server.client()
    for far, near in zip(forever, soon):
        assert client.expire(far, 100000)
        assert client.pexpire(near, 1)


def scan(client):
    return list(client.scan_iter(count=1000))


def test_scan_rename_and_expire_while_the_list_is_written(make_server, words):
    server = make_server(*(() if IS_REDIS else ("--durability", "everysec"))).start()
    half = len(words) // 2
    assert b"errors: 0" in pipe(server, commands(words, 0, half))
    groups = [words[first:half:100] for first in (1, 2, 3)]
    renamed, far, near = groups
    touched = set(renamed) | set(near)
    steady = {word for word in words[:half] if word not in touched}

    done = threading.Event()
    threads = [
        threading.Thread(target=write, args=(server, words, half, done)),
        threading.Thread(target=rename_some, args=(server, words, renamed)),
        threading.Thread(target=expire_some, args=(server, far, near)),
    ]
    for thread in threads:
        thread.start()
    scans = 0
    client = server.client()
    while scans < 1 or not done.is_set():
        seen = [key for key in scan(client) if key in steady]
        assert set(seen) == steady, "a key that was there throughout was not returned"
        if not IS_REDIS:
            assert len(seen) == len(steady), "a key that was there throughout came twice"
        scans += 1
    for thread in threads:
        thread.join()

    wait_for(lambda: client.get(near[-1]) is None, "the last short time to pass")
    expected = (set(words) - touched) | {b"renamed:" + word for word in renamed}
    assert set(scan(client)) == expected
    assert set(client.keys()) == expected
    assert wait_for(lambda: client.dbsize() == len(expected), "expired words to leave")
    assert all(client.ttl(word) > 0 for word in far[::50])
    assert all(client.ttl(b"renamed:" + word) == -1 for word in renamed[::50])
    if not IS_REDIS:
        server.crash_and_restart()
        assert set(scan(server.client())) == expected
