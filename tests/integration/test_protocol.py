"""Bytes in, bytes out: framing, inline commands, RESP3, errors, limits."""

import pytest
from support import RawClient, ReplyError, encode

SENTINEL = b"the very end"


def answers(server, payload):
    """All bytes answered to a payload, up to a final ECHO or the end of the connection.

    What is too long to be read at once gets no ECHO behind it: how much of it has arrived when
    the limit is noticed is a matter of chance.
    """
    with server.raw() as raw:
        if len(payload) > 65536:
            raw.send(payload)
            return raw.rest()
        try:
            raw.send(payload + encode("ECHO", SENTINEL))
        except (BrokenPipeError, ConnectionResetError):
            pass
        return raw.until(SENTINEL + b"\r\n")


SCRIPT = (
    encode("SET", "key", "value") + encode("GET", "key") + b"PING\r\n" + encode("GET", "none")
    + encode("APPEND", "key", "\r\n$5\r\n") + encode("STRLEN", "key") + b"\r\n" + b"*0\r\n"
    + b'SET "a b" "\\x00\\r\\n"\n' + encode("GET", "a b") + encode("NOSUCH", "x", "y")
    + encode("GET") + encode("MGET", "key", "none", "a b") + encode("DEL", "key", "a b")
)


def test_frames_split_at_every_byte_give_the_same_answers(server):
    whole = answers(server, SCRIPT)
    assert whole.endswith(SENTINEL + b"\r\n")
    for cut in range(1, len(SCRIPT)):
        with server.raw() as raw:
            raw.send(SCRIPT[:cut])
            raw.send(SCRIPT[cut:] + encode("ECHO", SENTINEL))
            assert raw.until(SENTINEL + b"\r\n") == whole, cut


def test_frames_sent_byte_by_byte_give_the_same_answers(server):
    whole = answers(server, SCRIPT)
    with server.raw() as raw:
        for index in range(len(SCRIPT)):
            raw.send(SCRIPT[index : index + 1])
        raw.send(encode("ECHO", SENTINEL))
        assert raw.until(SENTINEL + b"\r\n") == whole


def test_the_answers_to_the_script_are_those_of_redis(server, reference):
    assert answers(server, SCRIPT) == answers(reference, SCRIPT)


@pytest.mark.parametrize("depth", [1, 16, 1000, 20000])
def test_pipelines_of_any_depth_are_answered_in_order(server, depth):
    with server.raw() as raw:
        raw.send(b"".join(encode("INCR", "n") if i % 2 else encode("ECHO", i) for i in range(depth)))
        for index in range(depth):
            expected = index // 2 + 1 if index % 2 else str(index).encode()
            assert raw.reply() == expected


def test_a_client_that_sends_all_before_it_reads_is_served(server):
    value = b"x" * 1000
    with server.raw() as raw:
        raw.command("SET", "v", value)
        raw.send(encode("GET", "v") * 5000)
        for _ in range(5000):
            assert raw.reply() == value


@pytest.mark.parametrize(
    "payload",
    [
        b"PING\r\n", b"PING\n", b"ping  \r\n", b"  PING hello\r\n", b"\r\n\r\nPING\r\n",
        b'ECHO "a\\tb\\x41"\r\n', b"ECHO 'it\\'s \\x41'\r\n", b'ECHO ""\r\n', b"ECHO\r\n",
        b'SET k "unbalanced\r\n', b"ECHO 'a'b\r\n", b'ECHO "a"b\r\n', b"ECHO a\"b c\"\r\n",
        b"ECHO \t a\r\n", b"ECHO \xff\xfe\r\n", b"nosuch a b c\r\n", b"GET\r\n",
        b"'PING'\r\n", b"*0\r\nPING\r\n", b"*-1\r\nPING\r\n",
    ],
)
def test_inline_commands_are_read_as_redis_reads_them(server, reference, payload):
    assert answers(server, payload) == answers(reference, payload)


PROTOCOL_ERRORS = [
    b"*1\r\n:1\r\n", b"*1\r\n+PING\r\n", b"*1\r\n\r\n", b"*x\r\n", b"*2147483648\r\n", b"*99999999999999999999\r\n", b"*1\r\n$-1\r\n", b"*1\r\n$x\r\n",
    b"*1\r\n$536870913\r\n", b"*1\r\n$99999999999999999999\r\n", b"*1\r\n$-5\r\nPING\r\n",
    b"*1\r\n$4\r\nPING\r\n*1\r\n!4\r\n", b"*\r\n", b"*1\r\n$\r\n", b"* 1\r\n", b"*+1\r\n",
    b"*01\r\n$4\r\nPING\r\n", b"*1\r\n$04\r\nPING\r\n", b"*1" + b"1" * 70000,
    b"*1\r\n$" + b"1" * 70000, b"A" * 70000, b"*1\r\n$4\r\nPINGxx",
]


@pytest.mark.parametrize("payload", PROTOCOL_ERRORS, ids=lambda p: repr(p[:24]))
def test_protocol_errors_answer_and_close_as_redis_does(server, reference, payload):
    assert answers(server, payload) == answers(reference, payload)
    assert server.client().ping()


@pytest.mark.own
def test_more_than_a_million_arguments_are_a_protocol_error(server):
    assert answers(server, b"*1048577\r\n") == b"-ERR Protocol error: invalid multibulk length\r\n"


def test_what_was_right_before_a_protocol_error_is_answered(server, reference):
    payload = encode("SET", "a", "1") + encode("GET", "a") + b"*1\r\n:1\r\n" + encode("GET", "a")
    assert answers(server, payload) == answers(reference, payload)


@pytest.mark.options("--requirepass", "secret")
@pytest.mark.parametrize(
    "payload",
    [b"*11\r\n", b"*1\r\n$16385\r\n", b"*10\r\n", b"*1\r\n$16384\r\n", b"*2\r\n$4\r\nAUTH\r\n$20000\r\n"],
)
def test_before_authentication_lengths_are_limited(make_server, server, payload):
    reference = make_server("--requirepass", "secret", "--save", "", directory="reference", program="redis-server")
    reference.start()
    assert self_ended(server, payload) == self_ended(reference, payload)


def self_ended(server, payload):
    """What a payload alone is answered, when it is followed by the end of input."""
    with server.raw() as raw:
        raw.send(payload)
        if payload in (b"*10\r\n", b"*1\r\n$16384\r\n"):
            return b"still open" if server.client(password="secret").ping() else b""
        return raw.rest()


def test_declared_lengths_are_not_allocated(server):
    """Connections that announce much and send little cost little."""
    import psutil

    process = psutil.Process(server.process.pid)
    server.client().ping()
    before = process.memory_info().rss
    connections = [server.raw() for _ in range(64)]
    for connection in connections:
        connection.send(b"*1000000\r\n$3\r\nSET\r\n$500000000\r\nabc")
    assert server.client().ping()
    for _ in range(50):
        assert server.client().ping()
    grown = process.memory_info().rss - before
    for connection in connections:
        connection.close()
    assert grown < 64 * 2**20


def test_hello_3_answers_a_map_and_2_an_array(raw):
    hello = raw.command("HELLO", "3")
    assert hello[b"server"] == b"redis"
    assert hello[b"version"] == b"7.0.15"
    assert hello[b"proto"] == 3
    assert hello[b"mode"] == b"standalone"
    assert hello[b"role"] == b"master"
    assert hello[b"modules"] == []
    assert raw.command("GET", "none") is None
    back = raw.command("HELLO", "2")
    assert back[:2] == [b"server", b"redis"]
    assert back[back.index(b"proto") + 1] == 2


def test_hello_has_the_fields_of_redis_in_their_order(raw, reference):
    with reference.raw() as other:
        assert [k for k in raw.command("HELLO", "3")][:7] == list(other.command("HELLO", "3"))


RESP3_SCRIPT = [
    ("GET", "none"), ("MGET", "none", "n"), ("SET", "n", "10"), ("INCRBYFLOAT", "n", "0.5"),
    ("GET", "n"), ("CONFIG", "GET", "timeout"), ("KEYS", "*"), ("EXISTS", "n"), ("TTL", "n"),
    ("RANDOMKEY",), ("GETDEL", "n"), ("RANDOMKEY",), ("SCAN", "0"), ("MULTI",), ("GET", "x"),
    ("EXEC",), ("CLIENT", "GETNAME"), ("SET", "x", "1", "NX", "GET"),
]


@pytest.mark.parametrize("version", [2, 3])
def test_both_versions_of_the_protocol_are_spoken_byte_for_byte(server, reference, version):
    payload = b"".join(encode(*words) for words in RESP3_SCRIPT)
    results = []
    for one in (server, reference):
        with one.raw() as raw:
            raw.command("HELLO", version)
            raw.send(payload + encode("ECHO", SENTINEL))
            results.append(raw.until(SENTINEL + b"\r\n"))
    assert results[0] == results[1]


@pytest.mark.parametrize(
    "words",
    [
        ("HELLO", "4"), ("HELLO", "1"), ("HELLO", "x"), ("HELLO", "3", "NOSUCH"),
        ("HELLO", "3", "AUTH", "default"), ("HELLO", "3", "SETNAME"),
        ("HELLO", "3", "SETNAME", "a b"), ("HELLO", "3", "AUTH", "nobody", "x"),
        ("HELLO", "99999999999999999999"), ("HELLO", "2", "SETNAME", "me", "EXTRA"),
    ],
)
def test_hello_errors_are_those_of_redis(raw, reference, words):
    with reference.raw() as other:
        expected = other.command(*words)
    assert isinstance(expected, ReplyError)
    assert raw.command(*words) == expected
    assert raw.command("PING") == "PONG"


def test_hello_may_name_the_connection(raw):
    raw.command("HELLO", "3", "SETNAME", "here")
    assert raw.command("CLIENT", "GETNAME") == b"here"


def test_reset_returns_to_resp2_and_database_0(raw):
    raw.command("HELLO", "3", "SETNAME", "here")
    raw.command("SELECT", "5")
    raw.command("MULTI")
    assert raw.command("RESET") == "RESET"
    assert raw.command("CLIENT", "GETNAME") is None
    raw.send(encode("GET", "none"))
    assert raw.until(b"\r\n") == b"$-1\r\n"
    assert b" db=0 " in raw.command("CLIENT", "INFO")


def test_quit_answers_ok_and_closes(raw):
    raw.send(encode("PING") + encode("QUIT") + encode("PING"))
    assert raw.rest() == b"+PONG\r\n+OK\r\n"


@pytest.mark.options("--client-output-buffer-limit", "normal 1mb 0 0")
def test_a_client_that_does_not_read_is_disconnected_at_its_output_limit(server):
    client = server.client()
    client.set("v", b"x" * 60000)
    greedy = RawClient(server.port)
    try:
        for _ in range(2000):
            greedy.send(encode("GET", "v") * 10)
    except (BrokenPipeError, ConnectionResetError):
        pass
    received = len(greedy.rest())
    assert received < 2000 * 10 * 60000
    assert client.ping()
    greedy.close()


def test_arbitrary_bytes_never_harm_other_clients(server):
    import random

    generator = random.Random(7)
    with server.raw() as good:
        for _ in range(150):
            with server.raw() as bad:
                noise = bytes(generator.choice(b"*$\r\n:+-0123456789PINGset\x00\xff") for _ in range(300))
                try:
                    bad.send(noise)
                except (BrokenPipeError, ConnectionResetError):
                    pass
            assert good.command("PING") == "PONG"
