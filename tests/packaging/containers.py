"""Images and containers on a machine without an engine, a registry, or systemd.

A bare Debian comes from debootstrap, with the mirror and the proxy that this machine's apt uses;
buildah builds, podman and runc run. Invariants:
 1. Images, layers, volumes, locks: everything is in one folder, which goes with the engine. The
    settings are files in it (CONTAINERS_CONF, CONTAINERS_STORAGE_CONF), the machine's own are
    neither read nor written. Only the bare Debian stays, as a tar file beside what was built.
 2. Containers use the machine's network and small limits; health checks, for which podman needs
    systemd's timers, are run by the test.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request

import pytest
from installing import BUILD, need, support

CAP_SYS_ADMIN = 21

STORAGE_CONF = """
[storage]
driver = "overlay"
graphroot = "{folder}/storage"
runroot = "{folder}/run"
"""

CONTAINERS_CONF = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
netns = "host"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
runtime = "runc"
static_dir = "{folder}/libpod"
tmp_dir = "{folder}/tmp"
volume_path = "{folder}/volumes"
"""


def run(*words, limit=600, check=True, **options):
    """The completed process; its output is one text, and what an assertion shows."""
    done = subprocess.run(
        list(map(str, words)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", timeout=limit, **options,
    )
    tail = "\n".join(done.stdout.splitlines()[-40:])
    assert not check or done.returncode == 0, f"{words[0]}: exit status {done.returncode}\n{tail}"
    return done


def need_engine():
    need("debootstrap", "buildah", "podman", "runc", "apt-get")
    status = pathlib.Path("/proc/self/status").read_text()
    effective = int(re.search(r"^CapEff:\s*(\w+)", status, re.M)[1], 16)
    if os.getuid() != 0 or not effective >> CAP_SYS_ADMIN & 1:
        pytest.skip("only root, with the right to mount, can put images together")
    mounts = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
    if not any(line.split()[4] == "/" for line in mounts):
        pytest.skip("/ is no mount point, so nothing can be mounted apart (a chroot into a folder)")


def release_name():
    lines = pathlib.Path("/etc/os-release").read_text().splitlines()
    settings = dict(line.split("=", 1) for line in lines if "=" in line)
    return settings.get("VERSION_CODENAME", "").strip('"')


def mirror(suite):
    """Where this machine's apt has Debian's main archive from; skips if there is none."""
    shown = run("apt-get", "indextargets", "--format", "$(ORIGIN) $(CODENAME) $(REPO_URI)")
    for line in shown.stdout.splitlines():
        words = line.split()
        if len(words) == 3 and words[:2] == ["Debian", suite]:
            return words[2]
    return pytest.skip(f"apt knows no mirror of Debian's {suite}")


def proxies():
    """apt's settings about proxies, as lines of its configuration."""
    return [
        line for line in run("apt-config", "dump").stdout.splitlines()
        if line.startswith(("Acquire::http", "Acquire::https")) and "Proxy" in line
    ]


def proxy_environment():
    """The same for debootstrap, which asks the environment."""
    found = dict(os.environ)
    for line in proxies():
        name, value = line.rstrip(";").split(" ", 1)
        if name in ("Acquire::http::Proxy", "Acquire::https::Proxy"):
            found[name.split("::")[1] + "_proxy"] = value.strip('"')
    return found


def bare_debian(folder):
    """A tar file of a minimal Debian of this machine's release; made once for each build folder."""
    suite = release_name()
    kept = support.ROOT / BUILD / f"debian-{suite}.tar"
    if kept.exists():
        return kept
    source = mirror(suite)
    if source.startswith("http"):
        try:
            urllib.request.urlopen(f"{source.rstrip('/')}/dists/{suite}/Release", timeout=60).close()
        except (urllib.error.URLError, OSError) as error:
            pytest.skip(f"apt's mirror of Debian does not answer: {error}")
    root, partial = folder / "debian", kept.with_suffix(".partial")
    run("debootstrap", "--variant=minbase", suite, root, source, env=proxy_environment())
    (root / "etc/apt/apt.conf.d/90proxy").write_text("".join(f"{p}\n" for p in proxies()))
    (root / "etc/dpkg/dpkg.cfg.d/unsafe-io").write_text("force-unsafe-io\n")  # as in Docker's image
    run("tar", "-C", root, "-cf", partial, ".")
    shutil.rmtree(root)
    partial.rename(kept)
    return kept


def make_folder():
    """In memory if there is plenty, since packages are many small files; else where TMPDIR says."""
    memory = pathlib.Path("/dev/shm")
    roomy = "TMPDIR" not in os.environ and memory.is_dir() and shutil.disk_usage(memory).free > 2**32
    return pathlib.Path(tempfile.mkdtemp(prefix="pando-containers-", dir=memory if roomy else None))


class Engine:
    """Builds and runs; everything it has is in one folder."""

    def __init__(self):
        self.folder = folder = make_folder()
        settings = {"storage.conf": STORAGE_CONF, "containers.conf": CONTAINERS_CONF}
        for name, text in settings.items():
            (folder / name).write_text(text.format(folder=folder))
        self.environment = dict(
            os.environ,
            CONTAINERS_STORAGE_CONF=str(folder / "storage.conf"),
            CONTAINERS_CONF=str(folder / "containers.conf"),
        )

    def buildah(self, *words):
        return run("buildah", *words, env=self.environment).stdout.strip()

    def podman(self, *words, check=True):
        return run("podman", *words, env=self.environment, check=check)

    def base_image(self, tag):
        container = self.buildah("from", "scratch")
        mounted = self.buildah("mount", container)
        run("tar", "-C", mounted, "-xpf", bare_debian(self.folder))
        self.buildah("umount", container)
        self.buildah("commit", "--quiet", "--rm", container, tag)

    def build(self, tag, dockerfile, context, **arguments):
        words = [w for k, v in arguments.items() for w in ("--build-arg", f"{k}={v}")]
        self.buildah(
            "bud", "--isolation", "chroot", "--format", "docker", *words, "--tag", tag,
            "--file", dockerfile, context,
        )

    def start(self, image, *arguments, options=()):
        """A container in the background."""
        words = ["run", "--detach", "--pull", "never", "--no-healthcheck", *options]
        return Container(self, self.podman(*words, image, *arguments).stdout.split()[-1])

    def run(self, image, *arguments, options=()):
        """A container to its end: (exit status, output)."""
        container = self.start(image, *arguments, options=options)
        support.wait_for(lambda: not container.state()["Running"], "the container's end")
        ended = container.state()["ExitCode"], container.log()
        container.remove()
        return ended

    def image(self, tag):
        return json.loads(self.podman("image", "inspect", tag).stdout)[0]

    def close(self):
        self.podman("rm", "--force", "--all", "--time", "0", check=False)
        run("buildah", "rm", "--all", env=self.environment, check=False)
        run("umount", self.folder / "storage/overlay", check=False)
        shutil.rmtree(self.folder)


class Container:
    def __init__(self, engine, name):
        self.engine = engine
        self.name = name

    def inspect(self):
        return json.loads(self.engine.podman("container", "inspect", self.name).stdout)[0]

    def state(self):
        return self.inspect()["State"]

    def log(self):
        return self.engine.podman("logs", self.name).stdout

    def execute(self, *words, check=True):
        return self.engine.podman("exec", self.name, *words, check=check)

    def healthy(self, port):
        """Whether the image's own health check, asked about this port, says so."""
        test = self.engine.image(self.inspect()["ImageName"])["Healthcheck"]["Test"]
        assert test[0] == "CMD"
        return self.execute(*test[1:], port, check=False).returncode == 0

    def wait_until_healthy(self, port):
        def ready():
            state = self.state()
            assert state["Running"], f"ended, status {state['ExitCode']}:\n{self.log()}"
            return self.healthy(port)

        support.wait_for(ready, "the container's health")
        return self

    def stop(self):
        """Its exit status, after podman's `stop` (the image's signal, then time to finish)."""
        self.engine.podman("stop", "--time", "60", self.name)
        return self.state()["ExitCode"]

    def remove(self):
        self.engine.podman("rm", "--force", "--time", "0", self.name)
