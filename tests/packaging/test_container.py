"""The image of docker/: built from this tree on a bare Debian, run, stopped, replaced.

The first test that needs the image waits for it to be built: about two minutes.
"""

import os
import socket

import psutil
import pytest
import redis
from containers import Engine, need_engine
from installing import support

DOCKER = support.ROOT / "docker"
IMAGE = "localhost/pando"


@pytest.fixture(scope="session")
def engine():
    need_engine()
    made = Engine()
    yield made
    made.close()


@pytest.fixture(scope="session")
def image(engine):
    engine.base_image("localhost/debian")
    engine.build(IMAGE, DOCKER / "Dockerfile", support.ROOT, BASE="localhost/debian")
    return IMAGE


@pytest.fixture
def start(engine, image):
    """Starts containers that serve on a port of their own; returns (container, port)."""
    started = []

    def begin(*arguments, options=()):
        port = support.free_port()
        container = engine.start(image, *arguments, "--port", port, options=options)
        started.append(container)
        return container.wait_until_healthy(port), port

    yield begin
    for container in started:
        container.remove()


def client(port, **options):
    return redis.Redis("127.0.0.1", port, socket_timeout=support.LIMIT, **options)


def test_the_image_says_what_it_serves_where_it_writes_and_who_it_is(engine, image):
    config = engine.image(image)["Config"]
    assert config["User"] == "pando"
    assert list(config["ExposedPorts"]) == ["6379/tcp"]
    assert list(config["Volumes"]) == ["/data"]
    assert config["StopSignal"] == "SIGTERM"


def test_the_image_has_no_compiler_and_no_package_lists(engine, image):
    _, found = engine.run(image, "sh", "-c", "command -v gcc make; ls /var/lib/apt/lists")
    assert found == ""


def test_data_survive_the_replacement_of_their_container(start, engine):
    volume = ("--volume", "kept:/data")
    first, port = start(options=volume)
    assert client(port).set("greeting", "hello")
    assert first.stop() == 0, first.log()
    first.remove()
    second, port = start("--durability", "everysec", options=volume)
    assert client(port).get("greeting") == b"hello"
    assert client(port).config_get("durability") == {"durability": "everysec"}
    assert second.stop() == 0


def test_the_server_is_the_first_process_and_not_root(start):
    container, _ = start()
    assert container.execute("cat", "/proc/1/comm").stdout == "pandod\n"
    uids = container.execute("grep", "^Uid:", "/proc/1/status").stdout.split()[1:]
    assert uids == [container.execute("id", "-u", "pando").stdout.strip()] * 4
    assert "0" not in uids


def outer_address():
    """An address of this machine that is not loopback; skips without one."""
    for addresses in psutil.net_if_addrs().values():
        for address in addresses:
            if address.family == socket.AF_INET and not address.address.startswith("127."):
                return address.address
    return pytest.skip("this machine has no address but loopback")


def test_whoever_reaches_the_port_is_served(start):
    _, port = start()
    assert redis.Redis(outer_address(), port, socket_timeout=support.LIMIT).ping()


def test_health_is_the_servers_and_needs_no_password(start):
    container, port = start("--requirepass", "secret")
    assert container.healthy(port)
    assert not container.healthy(support.free_port())
    assert client(port, password="secret").ping()


def test_a_folder_of_the_hosts_is_handed_over_by_a_start_as_root(start, tmp_path):
    os.chmod(tmp_path, 0o700)
    (tmp_path / "of-root").write_text("")
    container, port = start(options=("--user", "root", "--volume", f"{tmp_path}:/data"))
    assert client(port).set("a", "1")
    uid = int(container.execute("id", "-u", "pando").stdout)
    assert {path.stat().st_uid for path in [tmp_path, *tmp_path.iterdir()]} == {uid}
    assert container.execute("grep", "^Uid:", "/proc/1/status").stdout.split()[1] == str(uid)


def test_a_configuration_of_ones_own_takes_the_images_place(start, tmp_path):
    conf = tmp_path / "mine.conf"
    conf.write_text("bind 127.0.0.1\ndir /data\ndatabases 3\n")
    conf.chmod(0o644)
    _, port = start("/etc/mine.conf", options=("--volume", f"{conf}:/etc/mine.conf:ro"))
    assert client(port).config_get("databases") == {"databases": "3"}


def test_another_command_is_run_as_it_is(start, engine, image):
    volume = ("--volume", "checked:/data")
    container, _ = start(options=volume)
    assert container.stop() == 0
    status, said = engine.run(image, "pando-tool", "check", "/data", options=volume)
    assert status == 0, said
    status, said = engine.run(image, "pandod", "--version")
    assert (status, said.split()[0]) == (0, "pandod")


def test_a_wrong_option_ends_the_container_with_its_reason(engine, image):
    status, said = engine.run(image, "--no-such-directive", "1")
    assert status == 1
    assert "no-such-directive" in said


def test_the_service_of_compose_yaml_runs_within_its_limits(start):
    yaml = pytest.importorskip("yaml", reason="missing: python3-yaml")
    whole = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    service = whole["services"]["pando"]
    context = (DOCKER / service["build"]["context"]).resolve()
    assert context == support.ROOT
    assert (context / service["build"]["dockerfile"]).exists()
    assert service["ports"] == ["127.0.0.1:6379:6379"]
    (volume,) = service["volumes"]
    assert volume.split(":") == [*whole["volumes"], "/data"]
    options = ["--memory", service["mem_limit"], "--volume", volume]
    options += ["--read-only"] if service["read_only"] else []
    options += [w for name in service["cap_drop"] for w in ("--cap-drop", name)]
    options += [w for rule in service["security_opt"] for w in ("--security-opt", rule.split(":")[0])]
    container, port = start(*service["command"], options=options)
    assert client(port).set("a", "1")
    assert client(port).info()["dirty_memory"] == 2**30 // 8  # from the container's limit
    assert container.stop() == 0
