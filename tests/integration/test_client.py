"""CLIENT ID, GETNAME, SETNAME, INFO, LIST, KILL."""

import pytest
from support import ReplyError, wait_for


def fields(line):
    return dict(word.split("=", 1) for word in line.decode().split())


def test_ids_are_unique_and_grow(server):
    with server.raw() as first, server.raw() as second:
        one, two = first.command("CLIENT", "ID"), second.command("CLIENT", "ID")
        assert 0 < one < two
        assert first.command("CLIENT", "ID") == one


def test_names_are_set_read_and_removed(raw):
    assert raw.command("CLIENT", "GETNAME") is None
    assert raw.command("CLIENT", "SETNAME", "worker-1") == "OK"
    assert raw.command("CLIENT", "GETNAME") == b"worker-1"
    assert raw.command("CLIENT", "SETNAME", "") == "OK"
    assert raw.command("CLIENT", "GETNAME") is None


@pytest.mark.parametrize(
    "words",
    [
        ("CLIENT", "SETNAME", "a b"), ("CLIENT", "SETNAME", "a\n"), ("CLIENT", "NOSUCH"),
        ("CLIENT",), ("CLIENT", "LIST", "TYPE", "nosuch"), ("CLIENT", "LIST", "ID"),
        ("CLIENT", "LIST", "ID", "x"), ("CLIENT", "KILL"), ("CLIENT", "KILL", "1.2.3.4:5"),
        ("CLIENT", "KILL", "ID", "x"), ("CLIENT", "KILL", "NOSUCH", "x"),
        ("CLIENT", "KILL", "ID", "999999"), ("CLIENT", "KILL", "TYPE", "nosuch"),
        ("CLIENT", "KILL", "ID", "1", "ADDR"), ("CLIENT", "KILL", "SKIPME", "perhaps"),
        ("CLIENT", "LIST", "NOSUCH", "1"), ("CLIENT", "KILL", "USER", "nobody"),
    ],
)
def test_unusual_arguments_answer_as_redis_does(raw, reference, words):
    with reference.raw() as other:
        assert raw.command(*words) == other.command(*words)


def test_info_has_the_fields_of_redis(raw, reference):
    raw.command("CLIENT", "SETNAME", "me")
    raw.command("SELECT", "3")
    mine = fields(raw.command("CLIENT", "INFO"))
    with reference.raw() as other:
        theirs = fields(other.command("CLIENT", "INFO"))
    assert list(mine) == list(theirs)
    assert mine["name"] == "me"
    assert mine["db"] == "3"
    assert mine["cmd"] == "client|info"
    assert mine["user"] == "default"
    assert mine["resp"] == "2"
    host, port = raw.socket.getsockname()
    assert mine["addr"] == f"{host}:{port}"


def test_list_has_a_line_for_every_connection(server):
    with server.raw() as first, server.raw() as second:
        ids = {str(c.command("CLIENT", "ID")) for c in (first, second)}
        listed = {fields(line)["id"] for line in first.command("CLIENT", "LIST").splitlines()}
        assert ids <= listed
        (one,) = ids - {str(second.command("CLIENT", "ID"))}
        only = first.command("CLIENT", "LIST", "ID", one).splitlines()
        assert [fields(line)["id"] for line in only] == [one]
        normal = first.command("CLIENT", "LIST", "TYPE", "normal").splitlines()
        assert ids <= {fields(line)["id"] for line in normal}
        assert first.command("CLIENT", "LIST", "TYPE", "pubsub") == b""


def test_a_connection_that_left_leaves_the_list(server, client):
    with server.raw() as guest:
        number = guest.command("CLIENT", "ID")
    wait_for(lambda: not client.execute_command("CLIENT LIST", "ID", number), "the guest to leave")


def test_kill_by_id_closes_exactly_that_connection(server):
    with server.raw() as victim, server.raw() as bystander, server.raw() as killer:
        assert victim.command("PING") == "PONG"
        assert killer.command("CLIENT", "KILL", "ID", victim.command("CLIENT", "ID")) == 1
        assert victim.rest() == b""
        assert bystander.command("PING") == "PONG"
        assert killer.command("PING") == "PONG"


def test_kill_by_address_in_the_old_form(server):
    with server.raw() as victim, server.raw() as killer:
        assert victim.command("PING") == "PONG"
        host, port = victim.socket.getsockname()
        assert killer.command("CLIENT", "KILL", f"{host}:{port}") == "OK"
        assert victim.rest() == b""


def test_kill_by_filters_counts_and_spares_the_caller(server):
    with server.raw() as killer:
        victims = [server.raw() for _ in range(5)]
        for victim in victims:
            assert victim.command("PING") == "PONG"
        assert killer.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") == 5
        for victim in victims:
            assert victim.rest() == b""
            victim.close()
        assert killer.command("PING") == "PONG"


def test_kill_of_oneself_answers_first(server):
    with server.raw() as raw:
        number = raw.command("CLIENT", "ID")
        assert raw.command("CLIENT", "KILL", "ID", number, "SKIPME", "no") == 1
        assert raw.rest() == b""


def test_a_killed_client_runs_no_later_command(server):
    """What a client sends after OK was answered to its killer is never executed."""
    with server.raw() as killer:
        for round_ in range(20):
            victim = server.raw()
            number = victim.command("CLIENT", "ID")
            assert killer.command("CLIENT", "KILL", "ID", number) == 1
            try:
                victim.send(b"SET written %d\r\n" % round_)
            except (BrokenPipeError, ConnectionResetError):
                pass
            assert not isinstance(victim.rest(), ReplyError)
            victim.close()
            assert killer.command("GET", "written") is None
