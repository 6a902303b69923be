"""INFO, COMMAND, TIME, and the checkpoints' commands."""

import time

import pytest
import redis


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
