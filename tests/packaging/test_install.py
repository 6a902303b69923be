"""`make install` and `make uninstall`."""

import os
import re
import subprocess

from installing import make, need, support

CONF = "etc/pando/pando.conf"
CONF_COPY = "usr/local/share/pando/pando.conf"
# Every file of an installation, with its mode.
FILES = {
    CONF: 0o644,
    CONF_COPY: 0o644,
    "usr/local/bin/pando-tool": 0o755,
    "usr/local/bin/pandod": 0o755,
    "usr/local/include/pandostore.h": 0o644,
    "usr/local/lib/libpandostore.a": 0o644,
    "usr/local/lib/pkgconfig/pandostore.pc": 0o644,
    "usr/local/lib/systemd/system/pandod.service": 0o644,
    "usr/local/lib/sysusers.d/pando.conf": 0o644,
    "usr/local/share/doc/pandostore/example.c": 0o644,
    "usr/local/share/man/man3/pandostore.3": 0o644,
}


def files(folder):
    """{path: mode} of every file below."""
    found = (path for path in folder.rglob("*") if not path.is_dir())
    return {str(p.relative_to(folder)): p.stat().st_mode & 0o7777 for p in found}


def test_install_puts_exactly_these_files(stage):
    assert files(stage) == FILES


def test_uninstall_removes_exactly_what_install_put(stage):
    stranger = stage / "usr/local/bin/stranger"
    stranger.write_text("")
    make("uninstall", f"DESTDIR={stage}")
    assert list(files(stage)) == ["usr/local/bin/stranger"]
    assert not (stage / "etc/pando").exists()
    assert not (stage / "usr/local/share/pando").exists()


def test_uninstall_without_an_installation_does_nothing(tmp_path):
    assert make("uninstall", f"DESTDIR={tmp_path}") == ""
    assert files(tmp_path) == {}


def test_prefix_moves_everything_the_paths_inside_the_files_too(prefix):
    moved = {name.replace("usr/local/", "", 1): mode for name, mode in FILES.items()}
    assert files(prefix) == moved
    unit = (prefix / "lib/systemd/system/pandod.service").read_text()
    assert f"ExecStart={prefix}/bin/pandod {prefix}/etc/pando/pando.conf\n" in unit
    assert f"ReadWritePaths=-{prefix}/etc/pando\n" in unit
    assert "/usr/local" not in unit
    make("uninstall", f"PREFIX={prefix}")
    assert files(prefix) == {}


def test_prefix_usr_has_its_configuration_in_etc(tmp_path):
    make("install", f"DESTDIR={tmp_path}", "PREFIX=/usr")
    assert (tmp_path / CONF).exists()
    assert (tmp_path / "usr/lib/systemd/system/pandod.service").exists()
    assert not (tmp_path / "usr/etc").exists()


def test_the_installed_server_serves_with_the_installed_configuration(stage, tmp_path):
    pandod, tool = stage / "usr/local/bin/pandod", stage / "usr/local/bin/pando-tool"
    server = support.Server(tmp_path / "data", program=str(pandod), config=stage / CONF).start()
    try:
        assert server.client().set("a", "1")
    finally:
        server.stop()
    subprocess.run([tool, "check", server.directory], check=True, timeout=support.LIMIT)


def test_installing_again_keeps_an_edited_configuration(stage):
    conf = stage / CONF
    conf.write_text("port 7000\n")
    said = make("install", f"DESTDIR={stage}")
    assert conf.read_text() == "port 7000\n"
    assert f"kept {conf}" in said
    assert (stage / CONF_COPY).read_text() == (support.ROOT / "conf/pando.conf").read_text()


def test_installing_again_renews_a_configuration_nobody_edited(stage):
    for name in (CONF, CONF_COPY):
        (stage / name).write_text("# of an older version\n")
    assert make("install", f"DESTDIR={stage}") == ""
    assert (stage / CONF).read_text() == (support.ROOT / "conf/pando.conf").read_text()
    assert files(stage) == FILES


def test_uninstall_keeps_an_edited_configuration(stage):
    (stage / CONF).write_text("port 7000\n")
    said = make("uninstall", f"DESTDIR={stage}")
    assert list(files(stage)) == [CONF]
    assert f"kept {stage / CONF}" in said


PROGRAM = """
#include <pandostore.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    struct ps_store *store;
    struct ps_options options = {0};
    int rc = argc == 2 ? ps_open(argv[1], &options, &store, NULL, NULL) : PS_INVALID;
    if (rc == 0)
        rc = ps_close(store, true);
    puts(ps_strerror(rc));
    return rc != 0;
}
"""


EXAMPLE_SAYS = """pears before: 7
pears after: 6
from c to h:
  fruit/cherry: 80
  fruit/pear: 6
  tool/hammer: 2
tools deleted: 2
left: 3
"""


def test_the_manual_page_is_sound_and_names_only_what_there_is(prefix):
    need("groff", "man")
    page = prefix / "share/man/man3/pandostore.3"
    asked = ["groff", "-man", "-Tutf8", "-ww", "-z", page]
    done = subprocess.run(asked, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
    assert done.stdout == ""
    environment = dict(os.environ, MANWIDTH="80", LC_ALL="C.UTF-8")
    shown = subprocess.check_output(["man", "-l", page], env=environment, text=True)
    assert f"{prefix}/share/doc/pandostore/example.c" in page.read_text()
    header = (prefix / "include/pandostore.h").read_text()
    named = set(re.findall(r"\b(?:ps_[a-z_]+(?=\()|PS_[A-Z]+)", shown))
    assert len(named) > 30
    assert [name for name in named if not re.search(rf"\b{name}\b", header)] == []


def test_a_program_builds_against_the_installed_library(prefix, tmp_path):
    need("pkg-config", "cc")
    environment = dict(os.environ, PKG_CONFIG_PATH=str(prefix / "lib/pkgconfig"))
    asked = ["pkg-config", "--cflags", "--libs", "pandostore"]
    flags = subprocess.check_output(asked, env=environment, text=True).split()
    source, program, data = tmp_path / "program.c", tmp_path / "program", tmp_path / "store"
    source.write_text(PROGRAM)
    subprocess.run(["cc", "-o", program, source, *flags], check=True, timeout=support.LIMIT)
    subprocess.run([program, data], check=True, timeout=support.LIMIT)
    assert (data / "pando.db").exists()
    example = prefix / "share/doc/pandostore/example.c"
    warnings = ["-std=c11", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(["cc", *warnings, "-o", program, example, *flags], check=True, timeout=support.LIMIT)
    for _ in range(2):  # a new store, and the same again
        said = subprocess.check_output([program, tmp_path / "stock"], text=True, timeout=support.LIMIT)
        assert said == EXAMPLE_SAYS
    version = subprocess.check_output(asked[:1] + ["--modversion", "pandostore"], env=environment, text=True)
    server = subprocess.check_output([prefix / "bin/pandod", "--version"], text=True)
    assert server.split()[:2] == ["pandod", version.strip()]
