"""INFO, COMMAND, TIME, and the checkpoints' commands."""

import time

import pytest
import redis
from support import encode


def test_info_presents_a_standalone_redis_7(client):
    info = client.info()
    assert info["redis_version"] == "7.0.15"
    assert info["redis_mode"] == "standalone"
    assert info["role"] == "master"
    assert info["loading"] == 0
    assert info["process_id"] > 0
    assert info["tcp_port"] > 0
    assert info["uptime_in_seconds"] >= 0
    assert info["connected_clients"] >= 1
    assert info["total_commands_processed"] >= 1
    assert info["total_connections_received"] >= 1


@pytest.mark.own
def test_info_tells_pandos_own_version(client):
    assert client.info("server")["pando_version"]


def test_info_counts_keys_by_database(client):
    client.set("a", 1)
    client.set("b", 1, ex=1000)
    client.execute_command("SELECT", 0)
    assert client.info("keyspace")["db0"]["keys"] == 2
    assert client.info("keyspace")["db0"]["expires"] == 1


def test_info_sections_can_be_chosen(raw):
    text = raw.command("INFO", "server").decode()
    assert text.startswith("# Server\r\n")
    assert "# Clients" not in text
    both = raw.command("INFO", "clients", "STATS").decode()
    assert "# Clients" in both and "# Stats" in both and "# Server" not in both
    everything = raw.command("INFO", "everything").decode()
    for section in ("Server", "Clients", "Memory", "Persistence", "Stats", "Replication", "CPU", "Keyspace"):
        assert f"# {section}\r\n" in everything
    assert raw.command("INFO", "nosuch") == b""


def test_time_is_the_clock(raw):
    before = time.time()
    seconds, microseconds = (int(part) for part in raw.command("TIME"))
    assert before - 1 <= seconds + microseconds / 1e6 <= time.time() + 1
    assert 0 <= microseconds < 1_000_000


NAMES = (
    "get set setnx setex psetex mget mset msetnx getset getdel getex strlen append getrange "
    "setrange incr decr incrby decrby incrbyfloat del unlink exists type keys scan randomkey "
    "rename renamenx dbsize flushdb flushall expire pexpire expireat pexpireat ttl pttl "
    "expiretime pexpiretime persist multi exec discard ping echo select hello quit reset auth "
    "client info config command time save bgsave lastsave shutdown"
).split()


def test_command_tells_of_every_command_what_redis_tells(raw, reference):
    with reference.raw() as other:
        mine = raw.command("COMMAND", "INFO", *NAMES)
        theirs = other.command("COMMAND", "INFO", *NAMES)
    for name, own, expected in zip(NAMES, mine, theirs):
        assert own is not None, name
        # name, arity, flags, first key, last key, step
        assert own[0] == expected[0]
        assert own[1] == expected[1], name
        assert set(own[2]) == set(expected[2]), name
        assert own[3:6] == expected[3:6], name


def test_command_count_list_and_the_whole_agree(raw):
    names = raw.command("COMMAND", "LIST")
    whole = [entry[0] for entry in raw.command("COMMAND")]
    assert raw.command("COMMAND", "COUNT") == len(whole) == len(set(whole))
    assert set(whole) <= set(names)
    assert {name.encode() for name in NAMES} <= set(names)


def test_command_info_of_unknown_names_is_nil(raw):
    assert raw.command("COMMAND", "INFO", "nosuch") == [None]


def test_command_docs_has_an_entry_with_a_summary(raw):
    docs = raw.command("COMMAND", "DOCS", "get")
    assert docs[0] == b"get"
    assert b"summary" in docs[1]


def test_save_and_bgsave_make_checkpoints_and_lastsave_tells_when(client):
    before = client.execute_command("LASTSAVE")
    client.set("a", "1")
    assert client.save() in (True, b"OK", "OK")
    after = client.execute_command("LASTSAVE")
    assert after >= before
    assert client.bgsave() is True
    assert client.get("a") == b"1"


@pytest.mark.own
def test_after_save_a_restart_replays_nothing_that_was_saved(server):
    client = server.client()
    for number in range(1000):
        client.set(f"k{number}", number)
    client.execute_command("SAVE")
    server.crash_and_restart()
    assert server.client().dbsize() == 1000


@pytest.mark.parametrize("words", [("BGSAVE", "NOSUCH"), ("SAVE", "x"), ("LASTSAVE", "x"), ("TIME", "x")])
def test_wrong_arguments_answer_as_redis_does(raw, reference, words):
    with reference.raw() as other:
        assert raw.command(*words) == other.command(*words)


def test_unknown_commands_are_named_with_their_arguments(raw, reference):
    for words in (("NOSUCH",), ("nosuch", "a", "b" * 200, "c"), ("no\r\nsuch", "x"), ("config|get", "x")):
        with reference.raw() as other:
            assert raw.command(*words) == other.command(*words)


def test_redis_py_reads_the_command_table(client):
    assert isinstance(client, redis.Redis)
    assert "get" in client.command()


# What large values, transactions and old values of writing commands count, however often a command
# had to be run: on a loop, in the reader pool, again in the writer.
COUNTED = [
    [("GET", "s"), ("GET", "none"), ("GET", "mid"), ("GET", "large")],
    [("MGET", "large", "none", "mid", "s"), ("GETRANGE", "large", "0", "-1"), ("STRLEN", "large")],
    [("GET", "s"), ("SET", "a", "1"), ("GET", "large"), ("GETDEL", "large"), ("GET", "large")],
    [("GETSET", "s", "1"), ("GETSET", "none", "1"), ("GETSET", "large", b"y" * 2000000)],
    [("GETDEL", "none"), ("GETDEL", "mid"), ("GETEX", "s"), ("GETEX", "none"), ("GETEX", "large", "EX", "9")],
    [("SET", "s", "1", "GET"), ("SET", "none", "1", "GET"), ("SET", "s", "1", "NX", "GET")],
    [("SET", "large", b"y" * 2000000, "GET"), ("SETNX", "s", "1"), ("APPEND", "large", "1")],
    [("EXISTS", "s", "none"), ("TYPE", "none"), ("TTL", "s"), ("OBJECT", "ENCODING", "none")],
    [("MULTI",), ("GET", "s"), ("GET", "none"), ("EXEC",)],
    [("MULTI",), ("GET", "s"), ("GET", "large"), ("MGET", "mid", "large"), ("EXEC",)],
    [("MULTI",), ("SET", "a", "1"), ("GET", "large"), ("GETSET", "s", "2"), ("EXEC",)],
    [("MULTI",), ("SET", "a"), ("EXEC",), ("EXEC",), ("MULTI",), ("DISCARD",)],
]


def counted(server):
    """By sequence: replies, keyspace_hits, keyspace_misses, total_commands_processed."""
    found = []
    with server.raw() as raw:
        for sequence in COUNTED:
            raw.command("FLUSHALL")
            raw.command("MSET", "s", "5", "mid", b"m" * 100000, "large", b"x" * 3000000)
            raw.command("CONFIG", "RESETSTAT")
            raw.send(b"".join(encode(*words) for words in sequence))
            replies = [raw.reply() for _ in sequence]
            lines = raw.command("INFO", "stats").decode().split("\r\n")
            stats = dict(line.split(":", 1) for line in lines if ":" in line)
            names = ("keyspace_hits", "keyspace_misses", "total_commands_processed")
            found.append((sequence, replies, [(name, stats[name]) for name in names]))
    return found


def test_every_command_and_every_key_read_is_counted_once(server, reference):
    for own, expected in zip(counted(server), counted(reference)):
        assert own == expected
