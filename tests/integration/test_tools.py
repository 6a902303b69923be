"""The programs people use: redis-cli, redis-benchmark, pando-tool."""

import pathlib
import re
import subprocess

import pytest
import support
from support import encode


def tool(*arguments):
    return subprocess.run(
        [support.TOOL, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, timeout=support.LIMIT,
    )


def test_redis_cli_pings_writes_and_reads(server):
    assert server.cli("ping").stdout == "PONG\n"
    assert server.cli("set", "greeting", "hello world").stdout == "OK\n"
    assert server.cli("get", "greeting").stdout == "hello world\n"
    assert server.cli("-3", "config", "get", "maxclients").stdout.split()[0] == "maxclients"
    assert server.cli("-n", "3", "dbsize").stdout == "0\n"
    assert server.cli("nosuch").stdout.startswith("ERR unknown command 'nosuch'")


def test_redis_cli_reads_commands_from_its_input(server):
    lines = "".join(f"set line:{n} {n}\n" for n in range(100)) + "dbsize\n"
    assert server.cli(input=lines).stdout.splitlines()[-1] == "100"


def test_redis_cli_scans_and_finds_big_keys(server, client):
    client.mset({f"k{n}": "x" * n for n in range(500)})
    assert len(server.cli("--scan", "--pattern", "k1*").stdout.split()) == 111
    assert 'Biggest string found "k499"' in server.cli("--bigkeys").stdout.replace("'", '"').replace('""', '"')


def test_redis_cli_pipe_counts_its_replies(server):
    data = b"".join(encode("SET", f"k{n}", n) for n in range(20000)).decode()
    done = server.cli("--pipe", input=data)
    assert "errors: 0, replies: 20000" in done.stdout
    assert server.client().dbsize() == 20000


@pytest.mark.parametrize("pipeline", ["1", "16"])
def test_redis_benchmark_runs_without_an_error(server, pipeline):
    done = subprocess.run(
        ["redis-benchmark", "-p", str(server.port), "-n", "5000", "-r", "10000", "-c", "50",
         "-P", pipeline, "-q", "-t", "ping,set,get,incr,mset"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=support.LIMIT,
    )
    assert done.returncode == 0, done.stdout
    assert len(re.findall(r"requests per second", done.stdout)) == 6, done.stdout
    assert not re.search(r"error|warn", done.stdout, re.IGNORECASE), done.stdout


@pytest.mark.own
def test_pando_tool_finds_nothing_wrong_after_a_stop_and_after_kill_9(server, client):
    client.mset({f"k{n}": "x" * (n % 3000) for n in range(3000)})
    server.kill()
    done = tool("check", server.directory)
    assert done.returncode == 0, done.stdout
    server.start()
    server.stop()
    done = tool("check", server.directory)
    assert done.returncode == 0, done.stdout


@pytest.mark.own
def test_pando_tool_stat_tells_sizes(server, client):
    client.mset({f"k{n}": "x" * 100 for n in range(1000)})
    server.stop()
    done = tool("stat", server.directory)
    assert done.returncode == 0, done.stdout
    numbers = dict(re.findall(r"^(.*?) {2,}(\d+)$", done.stdout, re.MULTILINE))
    assert numbers["page size, bytes"] == "4096"
    assert 1000 <= int(numbers["entries"]) < 1100  # the keys, and a few rows about them
    assert int(numbers["file, pages"]) * 4096 == int(numbers["file, bytes"])


@pytest.mark.own
@pytest.mark.parametrize("words", [(), ("check",), ("nosuch", "."), ("check", "/no/such/directory")])
def test_pando_tool_explains_wrong_use_with_a_status_above_0(words):
    done = tool(*words)
    assert done.returncode > 0
    assert done.stdout.strip()


@pytest.mark.own
@pytest.mark.parametrize("command", ["dump", "load"])
def test_pando_tool_does_not_touch_the_directory_of_a_running_server(server, client, command):
    client.set("a", "1")
    done = tool(command, server.directory)
    assert done.returncode == 2
    assert str(server.directory) in done.stdout and "stop it first" in done.stdout
    assert client.get("a") == b"1"


def damage(directory):
    """Turns a bit in every page but those at the beginning; the offset of the first."""
    path = pathlib.Path(directory) / "pando.db"
    data = bytearray(path.read_bytes())
    first = 65536
    assert len(data) > first
    for offset in range(first, len(data), 4096):
        data[offset + 100] ^= 0x10
    path.write_bytes(data)
    return first


def names_damage(text):
    """Whether a line names the file and the place."""
    place = re.compile(r"\b(offset|page) \d+")
    return any("pando.db" in line and place.search(line) for line in text.splitlines())


@pytest.fixture
def damaged(server, client):
    for number in range(3000):
        client.set(f"k{number}", "x" * 500)
    client.save()
    server.stop()
    damage(server.directory)
    return server


@pytest.mark.own
def test_pando_tool_names_file_offset_and_kind_of_damage(damaged):
    done = tool("check", damaged.directory)
    assert done.returncode != 0
    assert names_damage(done.stdout), done.stdout


@pytest.mark.own
def test_a_server_on_a_damaged_file_says_so_and_never_crashes(damaged):
    damaged.spawn()
    support.wait_for(damaged._answers_or_ended, "the server to start or to refuse")
    if damaged.process.poll() is not None:
        assert damaged.wait() > 0, "ended by a signal"
    else:
        with damaged.raw() as raw:
            answers = [raw.command("GET", f"k{number}") for number in range(0, 3000, 50)]
            assert any(isinstance(answer, support.ReplyError) for answer in answers)
            assert raw.command("PING") == "PONG"
        damaged.kill()
    assert names_damage(damaged.log()), damaged.log()
    damaged.assert_clean_log()
