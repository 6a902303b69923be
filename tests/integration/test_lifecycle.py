"""Starting, stopping, starting again, and refusing to start."""

import os
import re
import resource
import signal
import subprocess

import pytest
import redis
from support import IS_REDIS, ROOT, TOOL, Server, wait_for


def test_a_fresh_server_answers_ping(client):
    assert client.ping()


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_with_status_0_and_keeps_the_data(server, sign):
    server.client().set("a", "1")
    server.stop(sign)
    assert server.process.returncode == 0
    if not IS_REDIS:
        assert server.start().client().get("a") == b"1"


@pytest.mark.own
def test_acknowledged_writes_survive_kill_9(server):
    client = server.client()
    for number in range(100):
        client.set(f"key:{number}", f"value {number}")
    server.crash_and_restart()
    client = server.client()
    assert client.dbsize() == 100
    assert client.get("key:57") == b"value 57"


@pytest.mark.own
def test_a_server_killed_before_its_first_write_starts_again(server):
    server.crash_and_restart()
    assert server.client().dbsize() == 0


@pytest.mark.own
@pytest.mark.options("--durability", "none")
def test_at_durability_none_an_orderly_stop_keeps_everything(server):
    server.client().set("a", "1")
    server.restart()
    assert server.client().get("a") == b"1"


@pytest.mark.own
def test_the_start_up_line_says_what_was_recovered_from_where_in_how_long(server):
    server.client().set("a", "1")
    server.kill()
    before = len(server.log())
    server.start()
    lines = server.log()[before:].splitlines()
    (line,) = [text for text in lines if re.search(r"\bRecovered\b", text)]
    assert re.search(r"checkpoint\D*\d+", line), line
    assert re.search(r"\blog\b.*\d+", line), line
    assert re.search(r"\d+(\.\d+)? ?(us|ms|s)\b", line), line


def test_shutdown_ends_the_server_with_status_0(server):
    client = server.client()
    client.set("a", "1")
    with pytest.raises(redis.ConnectionError):
        client.execute_command("SHUTDOWN", "NOSAVE")
        client.ping()
    assert server.wait() == 0


@pytest.mark.own
@pytest.mark.parametrize("option", [(), ("NOSAVE",), ("SAVE",), ("NOW",), ("NOW", "FORCE")])
def test_shutdown_with_any_option_loses_no_acknowledged_write(server, option):
    with server.raw() as raw:
        assert raw.command("SET", "a", "1") == "OK"
        raw.send(b" ".join([b"SHUTDOWN", *(word.encode() for word in option)]) + b"\r\n")
        assert raw.rest() == b""
    assert server.wait() == 0
    assert server.start().client().get("a") == b"1"


def test_shutdown_with_wrong_options_is_a_syntax_error(raw, reference):
    for words in (("SHUTDOWN", "LATER"), ("SHUTDOWN", "SAVE", "NOSAVE"), ("SHUTDOWN", "ABORT")):
        with reference.raw() as other:
            assert raw.command(*words) == other.command(*words), words


@pytest.mark.own
def test_a_second_server_on_the_same_directory_refuses(server, make_server):
    second = make_server(directory="data")
    second.log_path = second.directory.parent / "second.log"
    second.spawn()
    assert second.wait() != 0
    assert str(server.directory) in second.log()
    assert re.search(r"\b(locked|in use|another process)\b", second.log()), second.log()
    assert server.client().ping()


def test_a_port_in_use_is_said_and_the_exit_status_is_not_0(server, make_server):
    second = make_server(directory="other")
    second.port = server.port
    second.spawn()
    assert second.wait() != 0
    assert str(server.port) in second.log()
    assert re.search(r"in use", second.log()), second.log()
    assert server.client().ping()


@pytest.mark.own
def test_a_directory_that_cannot_be_used_is_named(make_server, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    server = make_server()
    server.directory = file / "below"
    server.spawn()
    assert server.wait() != 0
    assert str(server.directory) in server.log()


@pytest.mark.own
def test_damaged_pages_met_while_the_log_is_replayed_are_named(server):
    values = {f"key:{number}": "v" * 100 for number in range(2000)}
    server.client().mset(values)
    server.client().save()
    server.client().mset(values)
    server.kill()
    path = server.directory / "pando.db"
    data = bytearray(path.read_bytes())
    for page in range(131072, len(data), 4096):
        if data[page + 4] in (1, 2):  # leaves and branches
            data[page + 100] ^= 1
    path.write_bytes(data)
    server.spawn()
    assert server.wait() != 0
    assert re.search(r"failed: .*damaged: \S*pando\.db at offset \d+: page \d+", server.log())


@pytest.mark.own
def test_the_delivered_configuration_file_starts_a_server(make_server):
    server = make_server(config=ROOT / "conf" / "pando.conf").start()
    assert server.client().set("a", "1")


def test_clients_are_served_while_others_come_and_go(server):
    with server.raw() as patient:
        for number in range(200):
            with server.raw() as guest:
                if number % 3:
                    guest.send(b"*1\r\n$4\r\nPI")  # leaves in the middle of a command
                else:
                    assert guest.command("PING") == "PONG"
            assert patient.command("ECHO", number) == str(number).encode()


@pytest.mark.own
def test_a_stop_under_load_answers_or_drops_but_never_loses(server):
    connections = [server.raw() for _ in range(8)]
    for index, connection in enumerate(connections):
        for number in range(50):
            connection.send(b"SET %d:%d x\r\n" % (index, number))
    answered = []
    for connection in connections:
        assert connection.reply() == "OK"
    server.process.send_signal(signal.SIGTERM)
    for connection in connections:
        answered.append(1 + connection.rest().count(b"+OK"))
    assert server.wait() == 0
    server.start()
    client = server.client()
    for index, count in enumerate(answered):
        keys = [f"{index}:{number}" for number in range(count)]
        assert all(value == b"x" for value in client.mget(keys))


def test_many_restarts_keep_adding(make_server):
    if IS_REDIS:
        pytest.skip("redis-server keeps nothing without a dump")
    server = make_server().start()
    for number in range(6):
        server.client().incr("counter")
        server.crash_and_restart() if number % 2 else server.restart()
    assert server.client().get("counter") == b"6"


def test_the_log_says_where_it_listens(server):
    wait_for(lambda: str(server.port) in server.log() or "6379" in server.log(), "the port in the log")
    assert isinstance(server, Server)


@pytest.mark.own
def test_a_server_without_standard_streams_writes_no_log_into_its_data(make_server):
    server = make_server()
    server.before_exec = lambda: [os.close(fd) for fd in (0, 1, 2)]
    server.start()
    client = server.client()
    client.set("a", "1")
    streams = [os.readlink(f"/proc/{server.process.pid}/fd/{fd}") for fd in (0, 1, 2)]
    assert streams == ["/dev/null"] * 3
    server.stop()
    assert subprocess.run([TOOL, "check", server.directory], stdout=subprocess.DEVNULL).returncode == 0


@pytest.mark.own
def test_a_limit_on_the_size_of_files_is_a_full_disk(make_server):
    server = make_server()
    server.before_exec = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (24 << 20, 24 << 20))
    server.start()
    client = server.client()
    value = os.urandom(1_000_000)
    with pytest.raises(redis.ResponseError, match="MISCONF the disk is full"):
        for number in range(100):
            client.set(number, value)
    assert number > 10 and client.get(number - 1) == value and client.get(number) is None
    for other in range(number):
        assert client.delete(other) == 1
    wait_for(lambda: _is_set(client, value), "writing to resume")
    assert client.get("again") == value


def _is_set(client, value):
    try:
        return client.set("again", value)
    except redis.ResponseError:
        return False
