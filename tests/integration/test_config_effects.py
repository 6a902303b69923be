"""What the effective directives do. The table of directives (`pandod --print-config-table`) names
the test of each, and test_config_table.py holds it to that."""

import os
import re
import signal
import socket
import stat

import psutil
import pytest
import redis
from support import Hook, RawClient, ReplyError, encode, free_port, wait_for

pytestmark = pytest.mark.own


def option(name, *values):
    return pytest.mark.options(f"--{name}", *values)


def refused(address, port):
    with socket.socket() as probe:
        return probe.connect_ex((address, port)) != 0


def info(client, name):
    return client.info("everything")[name]


def threads(server, name):
    """Ids of the process's threads of that name."""
    folder = f"/proc/{server.process.pid}/task"
    return [t for t in os.listdir(folder) if open(f"{folder}/{t}/comm").read().strip() == name]


def set_directive(connection, name, value):
    assert connection.command("CONFIG", "SET", name, value) == "OK"


def unix_client(path):
    client = RawClient.__new__(RawClient)
    client.socket = socket.socket(socket.AF_UNIX)
    client.socket.settimeout(60)
    client.socket.connect(str(path))
    client.buffer = b""
    return client


# ---- sockets ------------------------------------------------------------------------------------


def test_bind(server, raw):
    assert refused("127.0.0.2", server.port)
    set_directive(raw, "bind", "127.0.0.2 -198.51.100.7")
    with socket.create_connection(("127.0.0.2", server.port)) as other:
        other.sendall(b"PING\r\n")
        assert other.recv(7) == b"+PONG\r\n"
    assert refused("127.0.0.1", server.port)
    assert raw.command("PING") == "PONG"  # what is established stays
    failed = raw.command("CONFIG", "SET", "timeout", "9", "bind", "198.51.100.7")
    assert failed == ReplyError(
        "ERR CONFIG SET failed (possibly related to argument 'bind') - "
        "Failed to bind to specified addresses."
    )
    assert raw.command("CONFIG", "GET", "bind")[1] == b"127.0.0.2 -198.51.100.7"
    assert raw.command("CONFIG", "GET", "timeout")[1] == b"0"
    assert not refused("127.0.0.2", server.port)
    set_directive(raw, "bind", "* -::*")
    assert not refused("127.0.0.1", server.port) and not refused("127.0.0.3", server.port)


def test_port(server, raw):
    other = free_port()
    set_directive(raw, "port", other)
    assert refused("127.0.0.1", server.port)
    assert not refused("127.0.0.1", other)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert raw.command("CONFIG", "SET", "port", taken.getsockname()[1]) == ReplyError(
            "ERR CONFIG SET failed (possibly related to argument 'port') - "
            "Unable to listen on this port. Check server logs."
        )
    assert not refused("127.0.0.1", other)
    set_directive(raw, "port", 0)
    assert refused("127.0.0.1", other)
    set_directive(raw, "port", server.port)
    assert RawClient(server.port).command("PING") == "PONG"


def test_port_0_and_no_unixsocket_is_refused_at_start(make_server):
    server = make_server("--port", "0").spawn()
    assert server.wait() == 1
    assert "neither port nor unixsocket" in server.log()


def test_unixsocket(make_server, tmp_path):
    path = tmp_path / "socket"
    server = make_server("--unixsocket", path).start()
    with unix_client(path) as client:
        assert client.command("SET", "a", "1") == "OK"
        line = client.command("CLIENT", "INFO").decode()
        assert f"addr={path}:0 laddr={path}:0" in line and "flags=U" in line
    server.kill()
    assert path.exists()
    server.arguments += ["--port", "0"]  # the last one counts
    server.spawn()
    with wait_for(lambda: _try(lambda: unix_client(path)), "the socket") as client:
        assert client.command("GET", "a") == b"1"
    assert refused("127.0.0.1", server.port)
    server.stop()
    assert not path.exists()


def _try(function):
    try:
        return function()
    except OSError:
        return None


def test_unixsocketperm(make_server, tmp_path):
    path = tmp_path / "socket"
    server = make_server("--unixsocket", path, "--unixsocketperm", "640").start()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert server.client().config_get("unixsocketperm") == {"unixsocketperm": "640"}


@option("tcp-backlog", "2")
def test_tcp_backlog(server):
    established, syn_sent = 1, 2
    server.process.send_signal(signal.SIGSTOP)
    try:
        sockets = [socket.socket() for _ in range(10)]
        for one in sockets:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", server.port))
        states = [s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] for s in sockets]
        assert states == [established] * 3 + [syn_sent] * 7  # the kernel takes one more
    finally:
        server.process.send_signal(signal.SIGCONT)
        for one in sockets:
            one.close()


def keepalive_seconds(server, connection):
    """The timer of the server's end of a connection, from the kernel's table; None: not set."""
    local, remote = server.port, connection.socket.getsockname()[1]
    for line in open("/proc/net/tcp").read().splitlines()[1:]:
        words = line.split()
        if int(words[1].split(":")[1], 16) == local and int(words[2].split(":")[1], 16) == remote:
            kind, left = words[5].split(":")
            return int(left, 16) / os.sysconf("SC_CLK_TCK") if kind == "02" else None
    raise AssertionError("no such connection")


@option("tcp-keepalive", "100")
def test_tcp_keepalive(server, raw):
    assert raw.command("PING") == "PONG"
    assert 1 < keepalive_seconds(server, raw) <= 101
    set_directive(raw, "tcp-keepalive", 0)
    with server.raw() as other:
        assert other.command("PING") == "PONG"
        assert keepalive_seconds(server, other) is None


# ---- limits -------------------------------------------------------------------------------------


def test_timeout(make_server, tmp_path):
    hook = Hook(tmp_path / "hooks", "pool-keys")
    server = make_server("--test-hook-dir", hook.directory).start()
    admin, idle, half, held = server.raw(), server.raw(), server.raw(), server.raw()
    assert idle.command("PING") == "PONG"
    half.send(b"*2\r\n$3\r\nGET\r\n$100\r\nhalf")
    held.send(encode("KEYS", "*"))
    hook.wait()
    set_directive(admin, "timeout", 1)
    assert idle.rest() == b""
    assert half.rest() == b""
    wait_for(lambda: info(server.client(), "connected_clients") <= 2, "the idle ones to be gone")
    hook.release()
    assert held.reply() == []  # who waits for an answer is not idle
    set_directive(server.raw(), "timeout", 0)


@option("maxclients", "5")
def test_maxclients(server, raw):
    wait_for(lambda: raw.command("CLIENT", "LIST").count(b"id=") == 1, "earlier ones to be gone")
    others = [server.raw() for _ in range(4)]
    for connection in others:
        assert connection.command("PING") == "PONG"
    received = re.compile(rb"total_connections_received:(\d+)")
    before = received.search(raw.command("INFO", "stats"))[1]
    with server.raw() as extra:
        assert extra.rest() == b"-ERR max number of clients reached\r\n"
    assert received.search(raw.command("INFO", "stats"))[1] == before  # as in Redis
    set_directive(raw, "maxclients", 6)
    with server.raw() as extra:
        assert extra.command("PING") == "PONG"
        assert raw.command("CONFIG", "SET", "maxclients", 4_000_000_000).args[0].startswith(
            "ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating "
            "system is not able to handle the specified number of clients, try with "
        )
    assert raw.command("CONFIG", "GET", "maxclients")[1] == b"6"
    assert info(server.client(), "rejected_connections") == 1


def test_maxclients_is_lowered_to_the_limit_of_open_files(make_server):
    server = make_server()
    hard = psutil.Process().rlimit(psutil.RLIMIT_NOFILE)[1]
    script = 'ulimit -n 200; exec "$0" "$@"'
    words = server.command()
    server.command = lambda: ["/bin/sh", "-c", script, *words]
    server.start()
    assert hard > 200
    lowered = int(server.client().config_get("maxclients")["maxclients"])
    assert 0 < lowered < 200
    assert f"maxclients has been reduced to {lowered}" in server.log()


def outside_address():
    for addresses in psutil.net_if_addrs().values():
        for one in addresses:
            if one.family == socket.AF_INET and not one.address.startswith("127."):
                return one.address
    return None


def test_protected_mode(server, raw, make_server):
    address = outside_address()
    if address is None:
        pytest.skip("this machine has no address but loopback's")
    set_directive(raw, "bind", "0.0.0.0")
    reference = make_server("--bind", "0.0.0.0", "--save", "", directory="ref", program="redis-server")
    reference.start()
    answers = []
    for one in (server, reference):
        with socket.create_connection((address, one.port), timeout=60) as outside:
            answers.append(b"".join(iter(lambda: outside.recv(65536), b"")))
    assert answers[0] == answers[1] and answers[0].startswith(b"-DENIED ")
    set_directive(raw, "protected-mode", "no")
    outside = redis.Redis(address, server.port)
    assert outside.ping()
    set_directive(raw, "protected-mode", "yes")
    set_directive(raw, "requirepass", "secret")
    assert redis.Redis(address, server.port, password="secret").ping()


@option("proto-max-bulk-len", "1mb")
def test_proto_max_bulk_len(server, raw):
    assert raw.command("PING", b"x" * 2**20) == b"x" * 2**20
    with server.raw() as other:
        other.send(b"*2\r\n$4\r\nPING\r\n$1048577\r\n")
        assert other.rest() == b"-ERR Protocol error: invalid bulk length\r\n"
    set_directive(raw, "proto-max-bulk-len", "2mb")
    assert raw.command("PING", b"x" * (2**20 + 1)) == b"x" * (2**20 + 1)


@option("client-query-buffer-limit", "1mb")
def test_client_query_buffer_limit(server, raw):
    command = encode("MGET", *[b"x" * 10000] * 200)
    with server.raw() as other:
        try:
            other.send(command)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert b"*200" not in other.rest()
    assert raw.command("PING") == "PONG"
    set_directive(raw, "client-query-buffer-limit", "4mb")
    assert raw.command("MGET", *[b"x" * 10000] * 200) == [None] * 200


@option("client-output-buffer-limit", "normal", "1mb", "0", "0")
def test_client_output_buffer_limit(server, raw):
    raw.command("SET", "big", b"x" * 60000)
    with server.raw() as greedy:
        greedy.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        greedy.send(encode("GET", "big") * 1000)
        wait_for(lambda: "overcoming of output buffer limits" in server.log(), "the hard limit")
    set_directive(raw, "client-output-buffer-limit", "normal 0 100kb 1")
    with server.raw() as greedy:
        greedy.send(encode("GET", "big") * 300)
        wait_for(
            lambda: server.log().count("overcoming of output buffer limits") == 2, "the soft limit"
        )
    assert raw.command("PING") == "PONG"
    assert info(server.client(), "client_output_buffer_limit_disconnections") == 2


def test_requirepass(server, raw):
    set_directive(raw, "requirepass", "secret")
    with server.raw() as other:
        assert other.command("GET", "a") == ReplyError("NOAUTH Authentication required.")
        assert other.command("AUTH", "secret") == "OK"
        assert other.command("GET", "a") is None


# ---- data ---------------------------------------------------------------------------------------


def test_dir(make_server, tmp_path):
    server = make_server("--dir", tmp_path / "elsewhere").start()
    server.client().set("a", 1)
    assert (tmp_path / "elsewhere" / "pando.db").exists()
    assert not (server.directory / "pando.db").exists()
    assert server.client().config_get("dir") == {"dir": str(tmp_path / "elsewhere")}


@option("databases", "3")
def test_databases(raw):
    assert raw.command("SELECT", 2) == "OK"
    assert raw.command("SELECT", 3) == ReplyError("ERR DB index is out of range")


def log_bytes(client):
    return info(client, "log_bytes_written")


@option("durability", "none")
def test_durability(server):
    client = server.client()
    before = log_bytes(client)
    client.set("unlogged", 1)
    assert log_bytes(client) == before
    client.config_set("durability", "always")
    syncs = info(client, "log_syncs")
    client.set("logged", 1)
    assert info(client, "log_syncs") > syncs
    server.crash_and_restart()
    assert server.client().get("logged") == b"1"


@option("appendfsync", "no")
def test_appendfsync(server):
    client = server.client()
    assert info(client, "durability") == "everysec"
    client.config_set("appendfsync", "always")
    assert info(client, "durability") == "always"
    syncs = info(client, "log_syncs")
    client.set("a", 1)
    assert info(client, "log_syncs") > syncs


def write_many(client, count=20000):
    pipeline = client.pipeline(transaction=False)
    for number in range(count):
        pipeline.set(f"key:{number}", number)
    pipeline.execute()


@option("max-recovery-time", "3600000")
def test_max_recovery_time(server):
    client = server.client()
    before = info(client, "rdb_saves")
    write_many(client)
    assert info(client, "rdb_saves") == before
    client.config_set("max-recovery-time", 10)

    def saved():
        write_many(client)
        return info(client, "rdb_saves") > before

    wait_for(saved, "a checkpoint to keep the log short")


def test_max_snapshot_age(make_server, tmp_path):
    step = Hook(tmp_path / "hooks", "step-keys")
    server = make_server("--test-hook-dir", step.directory, "--max-snapshot-age", "0").start()
    client = server.client()
    client.mset({f"k{n}": n for n in range(100)})
    slow = server.raw()
    slow.send(encode("KEYS", "*"))
    step.wait()  # it has read something

    def listed():
        held = [v for k, v in client.info("snapshots").items() if re.match(r"snapshot\d", k)]
        return held and held[0]

    held = wait_for(listed, "its snapshot to be listed")
    assert held["kind"] == "plain" and held["ended"] == 0 and held["age_ms"] >= 1000
    assert info(client, "oldest_snapshot_ms") >= held["age_ms"]
    client.mset({f"k{n}": "x" * 1000 for n in range(100)})
    wait_for(lambda: client.ping() and listed()["retained_memory"] > 0, "what it keeps")
    assert info(client, "snapshots_ended") == 0
    client.config_set("max-snapshot-age", 1)
    wait_for(lambda: info(client, "snapshots_ended") == 1, "it to be ended")
    step.release()
    assert slow.reply() == ReplyError(
        "ERR this read took longer than max-snapshot-age allows, and was ended; try again"
    )
    assert slow.command("PING") == "PONG"
    wait_for(lambda: not listed(), "it to be gone")
    assert len(slow.command("KEYS", "*")) == 100


@option("dirty-memory", "8mb")
def test_dirty_memory(server):
    client = server.client()
    assert info(client, "arena_slots") * info(client, "page_size") == 8 * 2**20


@option("page-size", "16kb")
def test_page_size(server):
    server.client().set("a", 1)
    assert info(server.client(), "page_size") == 16384


# ---- threads ------------------------------------------------------------------------------------


@option("io-threads", "3")
def test_io_threads(server):
    assert len(threads(server, "pando-io")) == 3


@option("reader-threads", "5")
def test_reader_threads(server):
    wait_for(lambda: len(threads(server, "pando-reader")) == 5, "five reader threads")


def test_hz(make_server):
    """In the time of two rounds of one server, the other makes many."""
    slow = make_server("--hz", "1", directory="slow").start()
    fast = make_server("--hz", "100", directory="fast").start()

    def rounds(server):
        (writer,) = threads(server, "pando-writer")
        text = open(f"/proc/{server.process.pid}/task/{writer}/status").read()
        return int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", text, re.M)[1])

    first = rounds(slow), rounds(fast)
    wait_for(lambda: rounds(slow) >= first[0] + 2, "two rounds")
    assert rounds(fast) - first[1] >= 5 * (rounds(slow) - first[0])


# ---- messages and the end -----------------------------------------------------------------------


def test_loglevel(make_server, tmp_path):
    path = tmp_path / "own.conf"
    path.write_text("loglevel debug\n")
    server = make_server(config=path).start()
    client = server.client()
    client.config_set("timeout", 3)
    assert "CONFIG SET timeout" in server.log()
    assert "Accepted client id=" in server.log()
    client.config_set("loglevel", "notice")
    accepted = server.log().count("Accepted client id=")
    client.config_set("hz", 11)
    assert server.raw().command("PING") == "PONG"
    assert "CONFIG SET hz" not in server.log()
    assert server.log().count("Accepted client id=") == accepted
    assert client.execute_command("CONFIG REWRITE")
    assert server.log().count("CONFIG REWRITE executed") == 1
    client.config_set("loglevel", "warning")
    assert client.execute_command("CONFIG REWRITE")
    assert server.log().count("CONFIG REWRITE executed") == 1


def test_logfile(make_server, tmp_path):
    path = tmp_path / "pando.log"
    server = make_server("--logfile", path, "--loglevel", "verbose").start()
    assert "Ready to accept connections" in path.read_text()
    assert "Ready to accept connections" not in server.log()
    path.rename(tmp_path / "pando.log.1")
    server.process.send_signal(signal.SIGHUP)
    wait_for(path.exists, "the log file to be opened anew")
    wait_for(lambda: "SIGHUP" in path.read_text(), "a line in it")
    server.stop()
    assert "bye bye" in path.read_text()
    assert "bye bye" not in (tmp_path / "pando.log.1").read_text()


def test_without_a_logfile_sighup_changes_nothing(server):
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "SIGHUP" in server.log(), "the signal")
    assert server.client().ping()


def test_pidfile(make_server, tmp_path):
    path = tmp_path / "pando.pid"
    server = make_server("--pidfile", path).start()
    wait_for(path.exists, "the file")
    wait_for(lambda: path.read_text() == f"{server.process.pid}\n", "the process id")
    server.stop()
    assert not path.exists()


def test_a_pidfile_that_cannot_be_written_is_a_line_in_the_log(make_server, tmp_path):
    server = make_server("--pidfile", tmp_path / "none" / "pando.pid").start()
    wait_for(lambda: "Failed to write PID file" in server.log(), "the warning")
    assert server.client().ping()


def unread_replies(server):
    """A connection with more replies than its sockets hold."""
    server.client().set("big", b"x" * 60000)
    connection = server.raw()
    connection.send(encode("GET", "big") * 300)
    wait_for(lambda: info(server.client(), "client_recent_max_output_buffer") > 0, "a backlog")
    return connection


@option("shutdown-timeout", "3600")
def test_shutdown_timeout(server):
    connection = unread_replies(server)
    server.process.send_signal(signal.SIGTERM)
    wait_for(lambda: refused("127.0.0.1", server.port), "the server to stop listening")
    assert len(connection.rest()) == 300 * len(b"$60000\r\n" + b"x" * 60000 + b"\r\n")
    assert server.wait() == 0
    server.start()
    server.client().config_set("shutdown-timeout", 0)
    connection = unread_replies(server)
    server.process.send_signal(signal.SIGTERM)
    assert server.wait() == 0  # although nothing is read
    connection.close()


def check_signal(server, name, sign):
    checkpoint = "Making the last checkpoint"
    client = server.client()
    client.set("a", 1)
    client.config_set(f"shutdown-on-{name}", "nosave now")
    server.process.send_signal(sign)
    assert server.wait() == 0
    assert checkpoint not in server.log()
    server.start()
    assert server.client().get("a") == b"1"
    server.process.send_signal(sign)
    assert server.wait() == 0
    assert checkpoint in server.log()


def test_shutdown_on_sigint(server):
    check_signal(server, "sigint", signal.SIGINT)


def test_shutdown_on_sigterm(server):
    check_signal(server, "sigterm", signal.SIGTERM)


def test_test_hook_dir(make_server, tmp_path):
    hook = Hook(tmp_path / "hooks", "pool-keys")
    server = make_server("--test-hook-dir", hook.directory).start()
    with server.raw() as slow:
        slow.send(encode("KEYS", "*"))
        hook.wait()
        assert "test-hook-dir" not in server.client().config_get("*")
        hook.release()
        assert slow.reply() == []
