"""Fixtures: every test has servers of its own, in a directory of its own."""

import os
import shutil

import pando_tool
import pytest
import support


def pytest_configure(config):
    config.addinivalue_line("markers", "own: about what only pandod has")
    config.addinivalue_line("markers", "options(*words): directives for the server, as on its line")


def pytest_collection_modifyitems(items):
    if not support.IS_REDIS:
        return
    for item in items:
        if item.get_closest_marker("own"):
            item.add_marker(pytest.mark.skip(reason="redis-server has no such thing"))


def pytest_sessionstart():
    if not (os.path.exists(support.PANDOD) or shutil.which(support.PANDOD)):
        raise pytest.UsageError(f"no server at {support.PANDOD}: build first, or set PANDOD")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    outcome = yield
    report = outcome.get_result()
    if report.when == "call":
        item.good = not report.failed


@pytest.fixture
def tmp_path(tmp_path, request):
    """A test's folder goes with it, unless it failed: all of them together are tens of gigabytes."""
    yield tmp_path
    if getattr(request.node, "good", False):
        shutil.rmtree(tmp_path, ignore_errors=True)


@pytest.fixture
def make_server(tmp_path):
    """A function that makes (not starts) servers; all are stopped, cleanly, after the test."""
    servers = []

    def make(*arguments, directory="data", program=None, config=None):
        place = tmp_path / directory
        server = support.Server(place, arguments, program=program, config=config)
        servers.append(server)
        return server

    yield make
    errors = []
    for server in reversed(servers):
        try:
            server.stop()
        except AssertionError as error:
            errors.append(str(error))
    assert not errors, "\n".join(errors)


@pytest.fixture
def server(make_server, request):
    marker = request.node.get_closest_marker("options")
    return make_server(*(marker.args if marker else ())).start()


@pytest.fixture
def client(server):
    with server.client() as connection:
        yield connection


@pytest.fixture
def raw(server):
    with server.raw() as connection:
        yield connection


@pytest.fixture
def reference(make_server):
    """Debian's redis-server, to compare with."""
    arguments = ("--save", "", "--appendonly", "no")
    return make_server(*arguments, directory="reference", program=support.REDIS).start()


@pytest.fixture
def store(tmp_path):
    """(directory, {tree: entries}) of a store with 20,000 entries in one tree, a few in another, and long ones."""
    directory = tmp_path / "store"
    trees = {b"main": pando_tool.numbered(20_000), b"other": pando_tool.numbered(50, prefix=b"o")}
    trees[b"main"][b"key000500x"] = b"R" * 20_000
    trees[b"main"][b"key000600x"] = b"L" * 300_000
    pando_tool.load(directory, trees)
    return directory, trees


@pytest.fixture
def killed(make_server):
    """The directory of a server that was killed: its log has 40 commits after the checkpoint."""
    server = make_server("--durability", "always").start()
    with server.client() as client:
        client.save()
        for n in range(40):
            client.set(f"k{n}", f"value {n}")
    server.kill()
    return server.directory
