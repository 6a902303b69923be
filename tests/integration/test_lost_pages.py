"""The data file is cut off by somebody else while the server runs.

The kernel answers a look at what is gone with SIGBUS. That must be an error of the command that
looked, on whichever thread, and nothing else.
"""

import os
import pathlib

import pytest
import redis
from support import PANDOD, wait_for

# Builds with a sanitizer hold the data file in memory of their own, unless made with IMAGE=mapped.
IN_MEMORY = {"address", "thread"} & set(pathlib.Path(PANDOD).parts)
pytestmark = [
    pytest.mark.own,
    pytest.mark.skipif(bool(IN_MEMORY), reason="this build never reads the data file"),
]

KEYS = 20000
KEY = "key:{:06d}".format
LARGE = 4 << 20


def fill(server):
    client = server.client()
    with client.pipeline(transaction=False) as pipeline:
        for number in range(KEYS):
            pipeline.set(KEY(number), f"{number:06d}" * 20)
        pipeline.set("large", b"x" * LARGE)
        pipeline.execute()


def cut_off(server, bytes_left):
    """Everything is in the file, nothing in memory; then the file ends early."""
    server.restart()
    os.truncate(server.directory / "pando.db", bytes_left)


def outcomes(client, names):
    """(right, errors) of a GET of each; anything else fails."""
    right = errors = 0
    with client.pipeline(transaction=False) as pipeline:
        for name in names:
            pipeline.get(name)
        replies = pipeline.execute(raise_on_error=False)
    for name, reply in zip(names, replies):
        if isinstance(reply, redis.ResponseError):
            assert "reading or writing the data failed" in str(reply)
            errors += 1
        else:
            assert reply == (name[4:] * 20).encode()
            right += 1
    return right, errors


def test_reads_of_what_is_gone_are_errors_and_the_server_goes_on(server):
    fill(server)
    size = os.path.getsize(server.directory / "pando.db")
    cut_off(server, 131072)
    client = server.client()
    names = [KEY(number) for number in range(KEYS)]
    assert size > 131072 + (1 << 20)
    assert outcomes(client, names) == (0, KEYS)
    # Threads of the pool, and the writer.
    for command in (("KEYS", "*"), ("GET", "large"), ("GETRANGE", "large", "0", "99")):
        with pytest.raises(redis.ResponseError, match="reading or writing the data failed"):
            client.execute_command(*command)
    with pytest.raises(redis.ResponseError, match="MISCONF|reading or writing the data failed"):
        client.set(KEY(1), "x")
    with pytest.raises(redis.ResponseError, match="MISCONF"):
        client.set("new", "x")
    assert client.ping()
    assert client.dbsize() == KEYS + 1
    assert "cut off by somebody else" in server.log()


def test_what_is_still_there_is_still_answered(server):
    fill(server)
    server.restart()
    client = server.client()
    names = [KEY(number) for number in range(KEYS)]
    assert outcomes(client, names) == (KEYS, 0)
    size = os.path.getsize(server.directory / "pando.db")
    os.truncate(server.directory / "pando.db", size // 3 // 4096 * 4096)
    right, errors = outcomes(client, names)
    assert right + errors == KEYS
    assert client.ping()


def test_a_large_value_that_vanishes_while_it_is_sent_closes_that_connection_only(server):
    fill(server)
    client = server.client()
    client.set("larger", b"y" * (64 << 20))
    server.restart()
    raw = server.raw()
    raw.send(b"*2\r\n$3\r\nGET\r\n$6\r\nlarger\r\n")
    begun = raw.until(b"\r\n")
    os.truncate(server.directory / "pando.db", 131072)
    head, _, rest = (begun + raw.rest()).partition(b"\r\n")
    assert head == b"$67108864"
    assert len(rest) < 64 << 20
    assert rest == b"y" * len(rest)
    assert server.client().ping()
    wait_for(lambda: "closed in the middle of a reply" in server.log(), "a line in the log")
