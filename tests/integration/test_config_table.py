"""The table of directives: every directive of Redis has its class, every effective one its test."""

import pathlib
import subprocess

import pytest
from support import PANDOD, ROOT, ReplyError

pytestmark = pytest.mark.own

# Wrong in one way or another for every type of value; some are right for some.
WRONG = ("", "zz", "-99999999999999", "99999999999999999999", "1.5", "1x", "101%", "yes zz", "1 2 3",
         "normal 1 2", "other 1 2 3", "normal 1 x 3", "{x}", "save nosave")


def table():
    text = subprocess.run([PANDOD, "--print-config-table"], stdout=subprocess.PIPE, check=True).stdout
    return [line.split("\t") for line in text.decode().splitlines()]


@pytest.fixture(scope="session")
def collected(request):
    """Names of all tests of this run, as the table writes them."""
    return {
        f"{pathlib.Path(item.fspath).relative_to(ROOT)}::{item.originalname}"
        for item in request.session.items
    }


def test_every_effective_directive_names_the_test_of_its_effect(collected):
    named = {name: test for name, cls, test in table() if cls == "effective"}
    assert len(named) >= 30
    assert len(set(named.values())) == len(named)
    for name, test in named.items():
        path, function = test.split("::")
        assert f"\ndef {function}(" in (ROOT / path).read_text(), f"{name}: no {test}"
        if any(one.startswith(path) for one in collected):
            chosen = {one for one in collected if one.startswith(path)}
            assert test in collected or len(chosen) < 20, f"{name}: {test} is not collected"


def test_every_directive_of_redis_has_a_class_and_a_reason(reference):
    rows = table()
    classes = {name: cls for name, cls, _ in rows}
    assert len(classes) == len(rows)
    assert set(classes.values()) == {"effective", "no-op", "refused"}
    assert all(reason for _, _, reason in rows)
    with reference.raw() as connection:
        names = [n.decode() for n in connection.command("CONFIG", "GET", "*")[::2]]
    assert len(names) > 150
    assert [n for n in names if n not in classes] == []
    assert {"loadmodule", "rename-command", "user"} <= set(classes)


def test_config_get_has_exactly_redis_names_and_our_own(raw, reference):
    with reference.raw() as connection:
        names = set(connection.command("CONFIG", "GET", "*")[::2])
    ours = set(raw.command("CONFIG", "GET", "*")[::2])
    assert names - ours == set()
    assert ours - names == {
        b"durability", b"max-recovery-time", b"dirty-memory", b"page-size", b"reader-threads",
        b"disk-reads", b"max-snapshot-age",
    }


def test_no_ops_have_redis_defaults_and_are_shown_again(raw, reference):
    with reference.raw() as connection:
        flat = connection.command("CONFIG", "GET", "*")
    theirs = dict(zip(flat[::2], flat[1::2]))
    flat = raw.command("CONFIG", "GET", "*")
    ours = dict(zip(flat[::2], flat[1::2]))
    different = {
        name for name, cls, _ in table()
        if cls != "effective" and name.encode() in theirs
        and ours[name.encode()] != theirs[name.encode()]
    }
    assert different == {"appendonly"}  # there always is a log
    for name, value in ((b"maxmemory", b"1000"), (b"save", b"60 1 5 5"), (b"appendonly", b"no"),
                        (b"maxmemory-policy", b"allkeys-lru"), (b"maxmemory-clients", b"5%")):
        assert raw.command("CONFIG", "SET", name, value) == "OK"
        assert raw.command("CONFIG", "GET", name) == [name, value]


def test_a_no_op_is_warned_about_once(server, raw):
    for value in (b"100mb", b"200mb"):
        assert raw.command("CONFIG", "SET", "maxmemory", value) == "OK"
    assert server.log().count("'maxmemory' is accepted and changes nothing: ") == 1


def test_no_ops_of_the_command_line_are_warned_about_in_the_log(make_server, tmp_path):
    path = tmp_path / "pando.log"
    make_server("--save", "60 1", "--save", "5 5", "--logfile", path).start()
    assert path.read_text().count("'save' is accepted and changes nothing: ") == 1


def test_wrong_values_are_refused_in_redis_words(raw, reference):
    """All of CONFIG SET's errors are Redis's, where Redis has an error and Pando knows the range."""
    narrower = {"databases", "dir", "notify-keyspace-events"}
    refused = {name for name, cls, _ in table() if cls == "refused"}
    compared = 0
    with reference.raw() as other:
        before = other.command("CONFIG", "GET", "*")
        for name, old in zip(before[::2], before[1::2]):
            for value in WRONG:
                expected = other.command("CONFIG", "SET", name, value)
                if not isinstance(expected, ReplyError):
                    other.command("CONFIG", "SET", name, old)
                    continue
                if name.decode() in narrower or "TLS" in str(expected):
                    continue
                reply = raw.command("CONFIG", "SET", name, value)
                if name.decode() in refused and reply != expected:
                    assert isinstance(reply, ReplyError), (name, value)
                    continue
                assert reply == expected, (name, value)
                compared += 1
    assert compared > 1000


@pytest.mark.parametrize(
    "words",
    [
        ("SET", "nosuch", "1"), ("SET", "timeout", "1", "nosuch", "2"), ("SET", "loadmodule", "x"),
        ("SET", "include", "x"), ("SET", "Timeout", "1", "TIMEOUT", "1"), ("SET", "Databases", "1"),
        ("SET", "DIR", "/tmp"), ("SET", "timeout", "1", "Databases", "2", "nosuch", "3"),
        ("SET", "timeout", "1", "nosuch"), ("SET", "hz", "x", "timeout", "y"), ("REWRITE",),
        ("REWRITE", "x"), ("RESETSTAT", "x"), ("GET", "include"), ("GET", "loadmodule"), ("HELP",),
        ("SET", "hz", "0"), ("SET", "oom-score-adj-values", "1 2 3000"), ("SET", "appendonly", ""),
        ("SET", "unixsocketperm", "700"), ("SET", "daemonize", "yes"), ("SET", "replicaof", "a 1"),
    ],
)
def test_replies_of_config_are_those_of_redis(raw, reference, words):
    with reference.raw() as other:
        assert raw.command("CONFIG", *words) == other.command("CONFIG", *words)


@pytest.mark.parametrize(
    "name,value,reason",
    [
        ("tls-port", "6380", "put a TLS proxy in front"),
        ("notify-keyspace-events", "KEA", "Keyspace events are not sent"),
        ("min-replicas-to-write", "1", "Replication is not supported"),
        ("min-slaves-to-write", "1", "Replication is not supported"),
    ],
)
def test_a_refused_directive_says_why(raw, name, value, reason):
    reply = raw.command("CONFIG", "SET", name, value)
    assert reply.args[0].startswith(
        f"ERR CONFIG SET failed (possibly related to argument '{name}') - "
    )
    assert reason in reply.args[0]


def test_debians_redis_conf_is_understood_but_for_what_is_refused(make_server, tmp_path):
    path = tmp_path / "redis.conf"
    stock = pathlib.Path("/etc/redis/redis.conf")
    if not stock.exists():
        pytest.skip("Debian's redis.conf is not installed")
    lines = stock.read_text(errors="replace").splitlines()
    path.write_text("\n".join(lines) + "\n")
    run = [PANDOD, "--check-config", str(path)]
    result = subprocess.run(run, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert result.returncode == 1
    assert f"{path}:{lines.index('daemonize yes') + 1}: 'daemonize yes': ".encode() in result.stdout
    lines.remove("daemonize yes")
    path.write_text("\n".join(lines) + "\n")
    result = subprocess.run(run, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert result.returncode == 0, result.stdout


def test_resetstat_resets_what_redis_resets(server, raw):
    raw.command("SET", "a", "1")
    raw.command("GET", "a")
    raw.command("GET", "none")
    raw.command("SET", "short", "1", "PX", "1")

    def stats():
        return server.client().info("stats")

    assert raw.command("CONFIG", "RESETSTAT") == "OK"
    after = stats()
    for name in ("keyspace_hits", "keyspace_misses", "expired_keys", "evicted_keys",
                 "rejected_connections", "client_query_buffer_limit_disconnections",
                 "client_output_buffer_limit_disconnections"):
        assert after[name] <= (name == "expired_keys"), name
    assert after["total_connections_received"] <= 1  # the one that asks
    assert after["total_commands_processed"] <= 3
    assert server.client().dbsize() >= 1
