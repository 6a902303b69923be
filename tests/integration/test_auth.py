"""Passwords and the default user."""

import pytest
import redis
from support import ReplyError

protected = pytest.mark.options("--requirepass", "secret")


@pytest.fixture
def guarded_reference(make_server):
    words = ("--requirepass", "secret", "--save", "")
    return make_server(*words, directory="reference", program="redis-server").start()


@protected
@pytest.mark.parametrize(
    "words",
    [
        ("GET", "a"), ("SET", "a", "1"), ("PING",), ("CLIENT", "ID"), ("CONFIG", "GET", "*"),
        ("NOSUCH",), ("GET",), ("HELLO", "3"), ("HELLO",), ("AUTH",), ("AUTH", "wrong"),
        ("AUTH", "default", "wrong"), ("AUTH", "nobody", "secret"), ("AUTH", "a", "b", "c"),
        ("HELLO", "3", "AUTH", "default", "wrong"), ("MULTI",), ("SELECT", "1"), ("EXEC",),
        ("RESET",), ("AUTH", "secret"), ("AUTH", "default", "secret"), ("COMMAND", "COUNT"),
    ],
)
def test_before_authentication_commands_answer_as_redis_does(server, guarded_reference, words):
    with server.raw() as raw, guarded_reference.raw() as other:
        assert raw.command(*words) == other.command(*words)


@protected
def test_auth_opens_the_door_and_reset_closes_it(server):
    with server.raw() as raw:
        assert raw.command("AUTH", "secret") == "OK"
        assert raw.command("SET", "a", "1") == "OK"
        assert raw.command("RESET") == "RESET"
        assert isinstance(raw.command("GET", "a"), ReplyError)


@protected
def test_hello_authenticates_and_names(server):
    with server.raw() as raw:
        hello = raw.command("HELLO", "3", "AUTH", "default", "secret", "SETNAME", "me")
        assert hello[b"proto"] == 3
        assert raw.command("CLIENT", "GETNAME") == b"me"


@protected
def test_a_wrong_password_leaves_an_authenticated_connection_as_it_was(server):
    with server.raw() as raw:
        raw.command("AUTH", "secret")
        assert isinstance(raw.command("AUTH", "wrong"), ReplyError)
        assert raw.command("GET", "a") is None


def test_auth_without_a_password_set_is_explained_as_redis_does(raw, reference):
    with reference.raw() as other:
        for words in (("AUTH", "x"), ("AUTH", "default", "x"), ("AUTH", "nobody", "x")):
            assert raw.command(*words) == other.command(*words)


@protected
def test_redis_py_authenticates(server):
    assert server.client(password="secret").ping()
    assert server.client(username="default", password="secret").ping()
    with pytest.raises(redis.ResponseError, match="WRONGPASS"):
        server.client(password="wrong").ping()
    with pytest.raises(redis.AuthenticationError):
        server.client().ping()


@protected
def test_the_password_is_in_no_log(server):
    server.client(password="secret").ping()
    with server.raw() as raw:
        raw.command("AUTH", "guess-the-password")
    assert "secret" not in server.log()
    assert "guess-the-password" not in server.log()
