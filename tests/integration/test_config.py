"""The configuration file, the command line, and CONFIG."""

import pytest
import redis
from support import ReplyError


def refused(server):
    """The log of a server that must not start."""
    server.spawn()
    assert server.wait() != 0
    return server.log()


@pytest.fixture
def configured(make_server, tmp_path):
    """A function that makes a server with a configuration file of the given text."""

    def make(text, *arguments, name="test.conf"):
        path = tmp_path / name
        path.write_text(text)
        return make_server(*arguments, config=path)

    return make


def value(client, name):
    return client.config_get(name)[name]


def test_comments_blank_lines_and_case_are_as_in_redis_conf(configured):
    server = configured("# a comment\n\n   \t\nMaxClients 77\n  timeout   9  \n").start()
    assert value(server.client(), "maxclients") == "77"
    assert value(server.client(), "timeout") == "9"


def test_values_may_be_quoted(configured):
    server = configured("requirepass \"two words\\x21\"\n").start()
    assert server.client(password="two words!").ping()


def test_single_quotes_keep_backslashes(configured):
    server = configured("requirepass 'a\\x41b'\n").start()
    assert server.client(password="a\\x41b").ping()


@pytest.mark.parametrize(
    "written,bytes_",
    [("1k", 1000), ("1kb", 1024), ("2m", 2000000), ("2MB", 2097152), ("1g", 10**9),
     ("1Gb", 2**30), ("123456789", 123456789), ("1048576b", 1048576)],
)
def test_sizes_have_units(configured, written, bytes_):
    line = f"client-output-buffer-limit normal {written} 0 0\n"
    server = configured(line).start()
    words = value(server.client(), "client-output-buffer-limit").split()
    assert words[words.index("normal") + 1] == str(bytes_)


def test_a_file_may_include_others_which_then_win(configured, tmp_path):
    (tmp_path / "more.conf").write_text("maxclients 55\n")
    server = configured(f"maxclients 44\ninclude {tmp_path}/more.conf\n").start()
    assert value(server.client(), "maxclients") == "55"


@pytest.mark.own
def test_an_include_that_is_missing_is_named_with_the_line_that_wants_it(configured, tmp_path):
    log = refused(configured(f"\ninclude {tmp_path}/none.conf\n"))
    assert "test.conf:2:" in log
    assert "none.conf" in log


@pytest.mark.own
def test_an_include_of_itself_ends_with_an_error(configured, tmp_path):
    log = refused(configured(f"include {tmp_path}/test.conf\n"))
    assert "test.conf:1:" in log


def test_the_command_line_wins_over_the_file(configured):
    server = configured("maxclients 44\n", "--maxclients", "66").start()
    assert value(server.client(), "maxclients") == "66"


@pytest.mark.own
@pytest.mark.parametrize(
    "text,line,reason",
    [
        ("maxclients 10\nno-such-thing 1\n", 2, "no-such-thing"),
        ("\n\nmaxclients many\n", 3, "many"),
        ("maxclients\n", 1, "maxclients"),
        ("maxclients 1 2\n", 1, "maxclients"),
        ("durability sometimes\n", 1, "sometimes"),
        ("port 70000\n", 1, "70000"),
        ("requirepass \"open\n", 1, "quot"),
        ("client-output-buffer-limit normal 1x 0 0\n", 1, "1x"),
        ("maxclients -5\n", 1, "-5"),
        ("maxclients 99999999999999999999\n", 1, "99999999999999999999"),
    ],
)
def test_an_error_in_the_file_names_file_line_and_reason(configured, text, line, reason):
    log = refused(configured(text))
    assert f"test.conf:{line}:" in log
    assert reason in log.split(f"test.conf:{line}:", 1)[1]


@pytest.mark.own
@pytest.mark.parametrize(
    "words,reason",
    [(("--no-such-thing", "1"), "no-such-thing"), (("--maxclients", "many"), "maxclients"),
     (("--maxclients",), "maxclients")],
)
def test_an_error_on_the_command_line_names_the_directive(make_server, words, reason):
    assert reason in refused(make_server(*words))


@pytest.mark.own
def test_a_configuration_file_that_does_not_exist_is_named(make_server, tmp_path):
    assert "absent.conf" in refused(make_server(config=tmp_path / "absent.conf"))


@pytest.mark.own
def test_arbitrary_bytes_as_a_configuration_file_give_an_error(make_server, tmp_path):
    path = tmp_path / "bytes.conf"
    path.write_bytes(bytes(range(256)) * 64)
    assert "bytes.conf:1:" in refused(make_server(config=path))


@pytest.mark.own
def test_durability_is_always_by_default(client):
    assert value(client, "durability") == "always"
    assert value(client, "appendfsync") == "always"


@pytest.mark.own
@pytest.mark.parametrize("written,level", [("always", "always"), ("everysec", "everysec"), ("no", "everysec")])
def test_appendfsync_is_an_alias_of_durability(make_server, written, level):
    server = make_server("--appendfsync", written).start()
    assert value(server.client(), "durability") == level


@pytest.mark.own
@pytest.mark.parametrize("level", ["always", "everysec", "none"])
def test_durability_can_be_chosen(make_server, level):
    server = make_server("--durability", level).start()
    assert value(server.client(), "durability") == level
    assert server.client().set("a", "1")


@pytest.mark.own
def test_the_documented_defaults(client):
    assert float(value(client, "max-recovery-time")) in (1.0, 1000.0)
    assert int(value(client, "io-threads")) >= 1
    assert int(value(client, "reader-threads")) >= 2
    assert 64 * 2**20 <= int(value(client, "dirty-memory")) <= 2**30
    words = value(client, "client-output-buffer-limit").split()
    assert words[:4] == ["normal", str(256 * 2**20), "0", "0"]


def test_config_get_matches_patterns_of_any_case(client):
    assert set(client.config_get("*axclient*")) == {"maxclients"}
    assert client.execute_command("CONFIG GET", "MAXCLIENTS")
    assert client.config_get("no-such-*") == {}
    both = client.execute_command("CONFIG GET", "maxclients", "timeo*", "maxclients")
    assert set(both) == {"maxclients", "timeout"}


@pytest.mark.parametrize(
    "words",
    [("TimeOut",), ("TIMEOUT", "timeout"), ("time*", "TIMEOUT"), ("TIMEOUT", "TIME*"), ("ti\\meout",),
     ("ti\\meout*",), ("TIMEOU[t]",), ("timeout\0",), ("",), ("HZ", "nosuch", "tImEoUt", "hz")],
)
def test_config_get_answers_a_name_as_it_was_written(raw, reference, words):
    def pairs(connection):
        found = connection.command("CONFIG", "GET", *words)
        return sorted(zip(found[::2], found[1::2]))

    with reference.raw() as other:
        assert pairs(raw) == pairs(other)


def test_config_get_everything_has_unique_names_with_values(raw):
    flat = raw.command("CONFIG", "GET", "*")
    names = flat[::2]
    assert len(names) == len(set(names))
    assert {b"port", b"bind", b"dir", b"timeout", b"maxclients", b"requirepass"} <= set(names)


def test_config_set_changes_one_and_several(client):
    assert client.config_set("timeout", 77)
    assert value(client, "timeout") == "77"
    assert client.execute_command("CONFIG SET", "timeout", "5", "maxclients", "300")
    assert value(client, "timeout") == "5"
    assert value(client, "maxclients") == "300"


def test_config_set_of_several_is_all_or_nothing(client):
    client.config_set("timeout", 7)
    with pytest.raises(redis.ResponseError):
        client.execute_command("CONFIG SET", "timeout", "8", "maxclients", "many")
    assert value(client, "timeout") == "7"


@pytest.mark.parametrize(
    "words",
    [
        ("CONFIG", "SET", "no-such-thing", "1"),
        ("CONFIG", "SET", "timeout", "soon"),
        ("CONFIG", "SET", "timeout"),
        ("CONFIG", "SET", "timeout", "1", "timeout", "2"),
        ("CONFIG", "GET"),
        ("CONFIG", "NOSUCH"),
        ("CONFIG",),
    ],
)
def test_config_errors_are_those_of_redis(raw, reference, words):
    with reference.raw() as other:
        expected = other.command(*words)
    assert isinstance(expected, ReplyError)
    assert raw.command(*words) == expected


def test_config_set_of_what_cannot_change_is_refused(raw, reference):
    words = ("CONFIG", "SET", "io-threads", "3")
    with reference.raw() as other:
        assert raw.command(*words) == other.command(*words)


def test_config_set_requirepass_applies_to_new_connections(server):
    client = server.client()
    client.config_set("requirepass", "secret")
    with server.raw() as raw:
        assert isinstance(raw.command("GET", "a"), ReplyError)
    assert server.client(password="secret").get("a") is None
    assert client.get("a") is None


@pytest.mark.own
def test_config_set_durability_applies_at_once(server):
    client = server.client()
    assert client.config_set("durability", "everysec")
    assert value(client, "appendfsync") == "everysec"
    client.set("a", "1")
    server.crash_and_restart()
    assert server.client().get("a") == b"1"


def test_config_resetstat_answers_ok(raw):
    assert raw.command("CONFIG", "RESETSTAT") == "OK"


@pytest.mark.options("--maxclients", "5")
def test_one_connection_too_many_is_told_so(server):
    connections = []
    for _ in range(5):
        connections.append(server.raw())
        assert connections[-1].command("PING") == "PONG"
    with server.raw() as extra:
        assert extra.rest() == b"-ERR max number of clients reached\r\n"
    connections.pop().close()
    for connection in connections:
        assert connection.command("PING") == "PONG"
        connection.close()


@pytest.mark.options("--timeout", "1")
def test_idle_connections_are_closed_after_the_timeout(server):
    with server.raw() as idle:
        assert idle.command("PING") == "PONG"
        assert idle.rest() == b""
