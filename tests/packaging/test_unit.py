"""The systemd unit: systemd accepts it, and the server lives within what it allows."""

import re
import subprocess

import pytest
from installing import need, support


@pytest.fixture
def unit(prefix):
    return prefix / "lib/systemd/system/pandod.service"


def analyze(*arguments):
    return subprocess.run(
        ["systemd-analyze", *map(str, arguments)], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=support.LIMIT,
    )


def settings(unit):
    """The unit's [Service] section: {name: [values]}."""
    found = {}
    section = ""
    for line in unit.read_text().splitlines():
        if line.startswith("["):
            section = line
        elif section == "[Service]" and "=" in line and not line.startswith("#"):
            name, value = line.split("=", 1)
            found.setdefault(name, []).append(value)
    return found


def test_systemd_accepts_the_unit(unit):
    need("systemd-analyze")
    checked = analyze("verify", unit)
    assert (checked.returncode, checked.stdout) == (0, "")


def test_systemd_would_notice_a_missing_program(unit, prefix):
    need("systemd-analyze")
    (prefix / "bin/pandod").unlink()
    assert analyze("verify", unit).returncode != 0


def test_the_unit_leaves_little_exposed(unit):
    """2.0 of 10; what remains is the network, which a server is for."""
    need("systemd-analyze")
    checked = analyze("security", "--offline=true", "--threshold=20", unit)
    assert checked.returncode == 0, checked.stdout


def test_the_account_of_the_unit_is_one_that_sysusers_makes(unit, prefix, tmp_path):
    need("systemd-sysusers")
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    subprocess.run(
        ["systemd-sysusers", f"--root={root}", prefix / "lib/sysusers.d/pando.conf"], check=True,
        timeout=support.LIMIT,
    )
    names = [line.split(":")[0] for line in (root / "etc/passwd").read_text().splitlines()]
    assert [names] == [settings(unit)["User"]]


def system_calls(group):
    """The names in one of systemd's groups, those of the groups inside it included."""
    shown = analyze("syscall-filter", group)
    assert shown.returncode == 0, shown.stdout
    words = [w for w in shown.stdout.split("\n") if w.startswith("    ")]
    names = [w.strip() for w in words if not w.strip().startswith("#")]
    inner = [system_calls(name) for name in names if name.startswith("@")]
    return {name for name in names if not name.startswith("@")}.union(*inner)


def allowed_system_calls(unit):
    allowed = set()
    for value in settings(unit)["SystemCallFilter"]:
        names = {name for group in value.lstrip("~").split() for name in system_calls(group)}
        allowed = allowed - names if value.startswith("~") else allowed | names
    return allowed | system_calls("@default")


def test_the_unit_allows_every_system_call_the_server_makes(unit, tmp_path):
    need("systemd-analyze", "strace")
    trace = tmp_path / "trace"
    wrapper = tmp_path / "traced"
    # -D: the server is the child of this test, and the tracer its grandchild
    wrapper.write_text(f'#!/bin/sh\nexec strace -D -f -qq -o {trace} {support.PANDOD} "$@"\n')
    wrapper.chmod(0o755)
    server = support.Server(
        tmp_path / "data", ["--maxclients", "20000", "--dirty-memory", "4mb"], program=str(wrapper)
    ).start()
    try:
        client = server.client()
        for number in range(3000):
            client.set(f"key:{number}", b"x" * 4000)
        assert client.keys("key:1*")
        assert client.info()["redis_version"]
        client.config_set("durability", "everysec")
        client.save()
        client.flushall()
    finally:
        server.stop()
    made = set(re.findall(r"^\d+ +(\w+)\(", trace.read_text(errors="replace"), re.M))
    assert {"mmap", "madvise", "fdatasync", "prlimit64", "accept4"} <= made
    assert made <= allowed_system_calls(unit), made - allowed_system_calls(unit)
