"""Databases, transactions, expiry, as clients' libraries use them."""

import threading

import pytest
import redis
from support import ReplyError, encode, wait_for


def test_there_are_16_databases_each_with_keys_of_its_own(raw):
    for number in range(16):
        assert raw.command("SELECT", number) == "OK"
        assert raw.command("GET", "where") is None
        raw.command("SET", "where", number)
    for number in range(16):
        raw.command("SELECT", number)
        assert raw.command("GET", "where") == str(number).encode()
        assert raw.command("DBSIZE") == 1


@pytest.mark.parametrize("index", ["16", "-1", "x", "99999999999999999999", ""])
def test_other_databases_are_refused_as_redis_does(raw, reference, index):
    with reference.raw() as other:
        assert raw.command("SELECT", index) == other.command("SELECT", index)


def test_flushdb_empties_one_database_and_flushall_all(raw):
    for number in (0, 1, 2):
        raw.command("SELECT", number)
        raw.command("SET", "a", "1")
    assert raw.command("FLUSHDB") == "OK"
    raw.command("SELECT", 1)
    assert raw.command("DBSIZE") == 1
    assert raw.command("FLUSHALL", "ASYNC") == "OK"
    for number in (0, 1, 2):
        raw.command("SELECT", number)
        assert raw.command("DBSIZE") == 0


@pytest.mark.own
def test_databases_and_flushes_survive_a_crash(server):
    with server.raw() as raw:
        for number in range(16):
            raw.command("SELECT", number)
            raw.command("SET", "a", number)
        raw.command("SELECT", 3)
        raw.command("FLUSHDB")
    server.crash_and_restart()
    with server.raw() as raw:
        for number in range(16):
            raw.command("SELECT", number)
            expected = None if number == 3 else str(number).encode()
            assert raw.command("GET", "a") == expected


def test_a_transactional_pipeline_of_redis_py(client):
    with client.pipeline(transaction=True) as pipeline:
        pipeline.set("a", 1).incr("a").get("a").incrby("b", 10).delete("none")
        assert pipeline.execute() == [True, 2, b"2", 10, 0]


def test_a_pipeline_without_transaction(client):
    with client.pipeline(transaction=False) as pipeline:
        for number in range(1000):
            pipeline.set(f"k{number}", number)
        assert all(pipeline.execute())
    assert client.mget("k0", "k999") == [b"0", b"999"]


def test_an_error_within_exec_leaves_the_other_commands_done(client):
    client.set("text", "x")
    with client.pipeline() as pipeline:
        pipeline.set("a", 1).incr("text").set("b", 2)
        results = pipeline.execute(raise_on_error=False)
    assert results[0] is True and results[2] is True
    assert isinstance(results[1], redis.ResponseError)
    assert client.mget("a", "b", "text") == [b"1", b"2", b"x"]


TRANSACTIONS = [
    [("MULTI",), ("SET", "a", "1"), ("NOSUCH",), ("EXEC",), ("GET", "a")],
    [("MULTI",), ("GET",), ("EXEC",)],
    [("MULTI",), ("MULTI",), ("EXEC",)],
    [("EXEC",)],
    [("DISCARD",)],
    [("MULTI",), ("SET", "a", "1"), ("DISCARD",), ("GET", "a")],
    [("MULTI",), ("EXEC",)],
    [("MULTI",), ("SELECT", "1"), ("SET", "a", "x"), ("SELECT", "0"), ("GET", "a"), ("EXEC",)],
    [("MULTI",), ("SELECT", "1"), ("EXEC",), ("SET", "b", "1"), ("SELECT", "0"), ("EXISTS", "b")],
    [("MULTI",), ("SET", "a", "1"), ("FLUSHALL",), ("DBSIZE",), ("SET", "c", "1"), ("EXEC",)],
    [("MULTI",), ("EXEC", "x"), ("EXEC",)],
    [("MULTI", "x")],
    [("MULTI",), ("PING",), ("ECHO", "x"), ("TIME", "x"), ("EXEC",)],
    [("MULTI",), ("SET", "a", "1", "EX", "0"), ("INCR", "n"), ("EXEC",)],
    [("MULTI",), ("RESET",), ("EXEC",)],
    [("MULTI",), ("HELLO", "9"), ("CLIENT", "GETNAME"), ("CONFIG", "GET", "timeout"), ("EXEC",)],
    [("MULTI",), ("KEYS", "*"), ("RANDOMKEY",), ("SCAN", "0"), ("EXEC",)],
    [("MULTI",), ("SAVE",), ("SHUTDOWN", "LATER"), ("EXEC",)],
]


@pytest.mark.parametrize("commands", TRANSACTIONS, ids=lambda c: " ".join(w[0] for w in c))
def test_transactions_answer_as_redis_does(raw, reference, commands):
    payload = b"".join(encode(*words) for words in commands) + encode("ECHO", "sentinel")
    with reference.raw() as other:
        raw.send(payload)
        other.send(payload)
        assert raw.until(b"sentinel\r\n") == other.until(b"sentinel\r\n")


@pytest.mark.options("--requirepass", "secret")
@pytest.mark.parametrize("before", [("MULTI",), ("RESET", "MULTI", "AUTH secret"), ("NOSUCH", "EXEC")])
@pytest.mark.parametrize("ending", ["EXEC x", "EXEC", "DISCARD x", "PING"])
def test_long_commands_behind_a_broken_transaction_are_answered(server, before, ending):
    """One pipeline, so that all of it can become one unit of the writer."""
    commands = ["AUTH secret", "SET a 1", *before, ending, "SAVE", "KEYS *", "DISCARD", "SET b 1"]
    with server.raw() as raw:
        raw.send(b"".join(encode(*text.split()) for text in commands))
        answers = [raw.reply() for _ in commands]
    assert answers[:2] == ["OK", "OK"]
    assert answers[-1] == "OK"
    assert server.client(password="secret").ping()


def test_nobody_sees_half_of_an_exec(server):
    """Pairs written in one EXEC always agree, however they are read."""
    stop = threading.Event()
    failures = []

    def write():
        client = server.client()
        for number in range(400):
            with client.pipeline() as pipeline:
                pipeline.set("left", number).set("right", number)
                pipeline.execute()
        stop.set()

    def read(as_exec):
        client = server.client()
        while not stop.is_set():
            if as_exec:
                with client.pipeline() as pipeline:
                    left, right = pipeline.get("left").get("right").execute()
            else:
                left, right = client.mget("left", "right")
            if left != right:
                failures.append((left, right))

    threads = [threading.Thread(target=write)]
    threads += [threading.Thread(target=read, args=(kind,)) for kind in (False, True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_what_was_acknowledged_to_one_is_seen_by_all(server):
    clients = [server.raw() for _ in range(8)]
    for number in range(400):
        assert clients[number % 8].command("SET", "turn", number) == "OK"
        seen = clients[(number * 3 + 1) % 8].command("GET", "turn")
        assert seen == str(number).encode()
    for connection in clients:
        connection.close()


def test_a_connection_sees_its_own_writes_in_a_pipeline(raw):
    for number in range(200):
        raw.send(encode("SET", "k", number) + encode("GET", "k") + encode("DEL", "k") + encode("GET", "k"))
        assert [raw.reply() for _ in range(4)] == ["OK", str(number).encode(), 1, None]


def test_an_expired_key_is_gone_at_its_moment(client):
    client.set("a", "1", px=50)
    assert 0 < client.pttl("a") <= 50
    wait_for(lambda: client.get("a") is None, "the key to expire")
    assert client.exists("a") == 0
    assert client.ttl("a") == -2


@pytest.mark.parametrize("words", [("EXPIREAT", "a", "1"), ("PEXPIRE", "a", "-1"), ("EXPIRE", "a", "0"), ("PEXPIREAT", "a", "1")])
def test_a_time_in_the_past_deletes_at_once(raw, words):
    raw.command("SET", "a", "1")
    assert raw.command(*words) == 1
    assert raw.command("EXISTS", "a") == 0
    assert raw.command("DBSIZE") == 0


def test_expired_keys_leave_in_the_background(client):
    with client.pipeline(transaction=False) as pipeline:
        for number in range(2000):
            pipeline.set(f"short:{number}", "x", px=30)
        pipeline.set("long", "x")
        pipeline.execute()
    wait_for(lambda: client.dbsize() == 1, "2,000 expired keys to leave without being read")
    assert client.keys() == [b"long"]


@pytest.mark.own
def test_times_of_expiry_survive_a_crash(server):
    client = server.client()
    client.set("a", "1", ex=1000)
    client.set("b", "1", px=20)
    client.set("c", "1", ex=1000)
    client.persist("c")
    moment = client.execute_command("PEXPIRETIME", "a")
    server.crash_and_restart()
    client = server.client()
    assert client.execute_command("PEXPIRETIME", "a") == moment
    assert client.ttl("c") == -1
    wait_for(lambda: client.dbsize() == 2, "the expired key to leave after a restart")


def test_no_expired_key_shows_in_keys_scan_or_randomkey(client):
    client.set("stays", "1")
    for number in range(50):
        client.set(f"goes:{number}", "1", px=1)
    wait_for(lambda: client.get("goes:49") is None, "the last one to expire")
    assert client.keys() == [b"stays"]
    assert list(client.scan_iter(count=7)) == [b"stays"]
    assert all(client.randomkey() == b"stays" for _ in range(20))


def test_setting_anew_forgets_the_old_time(client):
    client.set("a", "1", ex=100)
    client.set("a", "2")
    assert client.ttl("a") == -1
    client.set("a", "3", ex=100)
    client.set("a", "4", keepttl=True)
    assert 0 < client.ttl("a") <= 100


def test_a_client_library_uses_what_it_needs(client):
    """A walk through redis-py's methods for strings and keys."""
    assert client.setnx("a", 1) is True
    assert client.setex("b", 100, "x") is True
    assert client.psetex("c", 100000, "x") is True
    assert client.mset({"d": 1, "e": 2}) is True
    assert client.msetnx({"d": 1, "f": 2}) is False
    assert client.getset("d", 9) == b"1"
    assert client.getdel("d") == b"9"
    assert client.getex("b", persist=True) == b"x"
    assert client.append("b", "yz") == 3
    assert client.getrange("b", 1, -1) == b"yz"
    assert client.setrange("b", 1, "__") == 3
    assert client.strlen("b") == 3
    assert client.incrbyfloat("e", 0.5) == 2.5
    assert client.decrby("a", 5) == -4
    assert client.type("a") == b"string"
    assert client.rename("a", "z") is True
    assert client.renamenx("z", "b") is False
    assert client.unlink("z", "b", "none") == 2
    assert sorted(client.keys()) == [b"c", b"e"]
    assert sorted(client.scan_iter(match="*")) == [b"c", b"e"]
    assert client.flushall() is True
    assert client.dbsize() == 0


def test_a_wrong_argument_is_an_error_and_no_more(raw):
    assert isinstance(raw.command("INCRBY", "a", "x"), ReplyError)
    assert raw.command("PING") == "PONG"
