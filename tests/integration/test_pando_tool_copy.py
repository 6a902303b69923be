"""pando-tool copy, compact, migrate-from-lmdb and migrate-to-lmdb: contents, atomicity, exit status."""

import os
import pathlib
import signal
import subprocess
import threading

import pytest
import support
from pando_tool import DAMAGE, ERROR, LEAF, PAGE, hit, load, numbered, of_kind, read, result, tool

pytestmark = pytest.mark.own

TREES = {b"main": {**numbered(20_000), b"key000500x": b"R" * 20_000, b"key000600x": b"L" * 300_000},
         b"other": numbered(50, prefix=b"o")}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A store that is not changed by any test: copied for those that do."""
    directory = tmp_path_factory.mktemp("copy") / "source"
    load(directory, TREES)
    return directory


@pytest.fixture
def store(source, tmp_path):
    subprocess.run(["cp", "-r", source, tmp_path / "store"], check=True)
    return tmp_path / "store"


def size(directory):
    return (pathlib.Path(directory) / "pando.db").stat().st_size


# ---- copy and compact ---------------------------------------------------------------------------


def test_a_copy_holds_all_entries_and_is_sound(store, tmp_path):
    last = result("copy", store, tmp_path / "new")
    assert (last["trees"], last["entries"]) == (2, 20_052) and not last["beside_server"]
    assert last["bytes"] == size(tmp_path / "new") and last["bytes_before"] == size(store)
    assert result("check", "--tries", "1", store)["findings"] == 0
    assert read(tmp_path / "new", "--checkpoint") == TREES
    assert read(tmp_path / "new") == TREES  # opened, as a server would
    assert result("check", tmp_path / "new")["findings"] == 0
    assert not (tmp_path / "new.copying").exists()


def test_a_copy_of_the_checkpoint_changes_nothing_in_its_source(store, tmp_path):
    before = {p.name: p.read_bytes() for p in store.iterdir()}
    assert b"20052 entries" in tool("copy", "--checkpoint", store, tmp_path / "new").stdout
    assert before == {p.name: p.read_bytes() for p in store.iterdir()}
    assert read(tmp_path / "new") == TREES


def test_a_place_that_is_taken_is_a_mistake(store, tmp_path):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "something").write_text("")
    assert b"something in this directory" in tool("copy", store, tmp_path / "new", status=ERROR).stderr
    tool("copy", store, tmp_path / "no" / "such", status=ERROR)
    tool("copy", tmp_path / "none", tmp_path / "copy", status=ERROR)
    tool("compact", tmp_path / "none", status=ERROR)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new", "store"]


def test_damage_is_found_and_not_copied(store, tmp_path):
    page = of_kind(store, LEAF)[0][0]
    hit(store, page)
    before = (store / "pando.db").read_bytes()
    for arguments in ((store, tmp_path / "new"), ("--checkpoint", store, tmp_path / "new")):
        done = tool("copy", *arguments, status=DAMAGE)
        assert f"at {page * PAGE}".encode() in done.stdout + done.stderr or b"checksum" in done.stderr
    tool("compact", store, status=DAMAGE)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["store"]
    assert (store / "pando.db").read_bytes()[131072:] == before[131072:]


def test_compacting_makes_the_file_smaller_and_keeps_all(store):
    load(store, {b"main": numbered(10_000, size=90)}, "--replace")
    expected = read(store)
    before = size(store)
    last = result("compact", store)
    assert last["bytes"] == size(store) < 0.8 * before
    assert read(store) == expected and result("check", store)["findings"] == 0
    assert result("stat", store)["pages_by_kind"]["free"] == 0
    assert result("compact", store)["bytes"] == last["bytes"]
    load(store, {b"main": {b"zz": b"1"}}, "--append")
    assert result("check", store)["findings"] == 0


def test_compacting_in_place_makes_the_file_shorter_and_keeps_all(store):
    load(store, {b"main": numbered(10_000, size=90)}, "--replace")
    expected = read(store)
    before = size(store)
    last = result("compact", "--in-place", store)
    assert last["bytes"] == size(store) < before and last["bytes_before"] == before
    assert read(store) == expected and result("check", store)["findings"] == 0


def killed_at(command, call, number):
    """Runs it, and kills it at one of its calls."""
    # Nobody is traced twice: a search for leaks traces, too.
    options = dict(os.environ, ASAN_OPTIONS=os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0")
    done = subprocess.run(["strace", "-f", "-o", "/dev/null", "-e", f"trace={call}",
                           "-e", f"inject={call}:signal=SIGKILL:when={number}", *command],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=support.LIMIT, env=options)
    return done.returncode


@pytest.mark.parametrize("command", ["copy", "compact"])
def test_killed_at_any_call_there_is_all_or_nothing(tmp_path, command):
    if subprocess.run(["strace", "-o", "/dev/null", "true"], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("strace cannot trace here")
    store, new, trees = tmp_path / "store", tmp_path / "new", {b"t": numbered(3_000, size=300)}
    load(store, trees)
    there = new if command == "copy" else store
    words = [support.TOOL, command, str(store)]
    if command == "copy":  # of the checkpoint: all calls are its own
        words += [str(new), "--checkpoint"]
    found = {False: 0, True: 0}
    for call in ("pwrite64", "ftruncate", "fsync", "rename"):
        for number in range(1, 300, 1 if command == "copy" else 9):
            status = killed_at(words, call, number)
            if status != 0:
                assert status in (-signal.SIGKILL, 128 + signal.SIGKILL)
                found[there.exists()] += 1
            if there.exists():
                assert result("check", there)["findings"] == 0
                assert read(there) == trees
            if there == new:
                subprocess.run(["rm", "-rf", new], check=True)
            if status == 0:
                break
        else:
            raise AssertionError("never through")
    assert found[command == "compact"] > 5 and found[True] >= 1
    tool(*words[1:])
    assert not (tmp_path / "new.copying").exists() and not (store / "pando.db.compact").exists()
    assert read(there) == trees


def test_a_copy_beside_a_running_server_is_a_state_it_had(server, client, tmp_path):
    stop = threading.Event()
    numbers = range(500)

    def write():
        writer, n = server.client(), 0
        while not stop.is_set():
            n += 1
            writer.mset({f"a{n % 500}": n, f"b{n % 500}": n})

    client.mset({f"{letter}{n}": 0 for n in numbers for letter in "ab"})
    client.execute_command("SAVE")
    thread = threading.Thread(target=write)
    thread.start()
    try:
        last = result("copy", "--tries", "200", server.directory, tmp_path / "new")
    finally:
        stop.set()
        thread.join()
    assert last["beside_server"]
    tool("compact", server.directory, status=ERROR)  # it is in use
    assert result("check", tmp_path / "new")["findings"] == 0
    copy = support.Server(tmp_path / "new")
    copy.start()
    try:
        reader = copy.client()
        assert reader.dbsize() == 1000
        assert reader.mget([f"a{n}" for n in numbers]) == reader.mget([f"b{n}" for n in numbers])
    finally:
        copy.stop()


# ---- LMDB ---------------------------------------------------------------------------------------


def without_lmdb():
    return b"built without LMDB" in subprocess.run([support.TOOL, "migrate-to-lmdb", "/none", "/none"],
                                                   stderr=subprocess.PIPE).stderr


lmdb = pytest.mark.skipif(without_lmdb(), reason="this pando-tool was built without LMDB")


def lmdb_load(path, text, *options):
    subprocess.run(["mdb_load", *options, path], input=text.encode(), check=True, timeout=support.LIMIT)


def dump_of(name, entries, flags=""):
    head = "VERSION=3\nformat=bytevalue\n" + (f"database={name}\n" if name else "")
    body = "".join(f" {k.hex()}\n {v.hex()}\n" for k, v in entries.items())
    return f"{head}type=btree\nmapsize=67108864\n{flags}HEADER=END\n{body}DATA=END\n"


@lmdb
def test_stores_go_to_lmdb_and_back(store, tmp_path):
    there = result("migrate-to-lmdb", store, tmp_path / "env")
    assert (there["trees"], there["entries"], there["verified"]) == (2, 20_052, 20_052)
    listed = subprocess.run(["mdb_stat", "-a", tmp_path / "env"], stdout=subprocess.PIPE, check=True).stdout
    assert b"Entries: 20002" in listed and b"Entries: 50" in listed
    back = result("migrate-from-lmdb", tmp_path / "env", tmp_path / "back")
    assert (back["trees"], back["entries"], back["verified"]) == (2, 20_052, 20_052)
    assert back["bytes"] == there["bytes"]
    assert read(tmp_path / "back") == TREES and result("check", tmp_path / "back")["findings"] == 0


@lmdb
def test_the_unnamed_database_is_a_tree_of_its_own(tmp_path):
    (tmp_path / "env").mkdir()
    unnamed, named = {b"k%03d" % n: b"v" for n in range(300)}, {b"x": b"1", b"y": b"2" * 5000}
    lmdb_load(tmp_path / "env", dump_of("", unnamed))
    lmdb_load(tmp_path / "env", dump_of("other", named))
    tool("migrate-from-lmdb", "--main", "other", tmp_path / "env", tmp_path / "none", status=ERROR)
    tool("migrate-from-lmdb", "--main", "top", tmp_path / "env", tmp_path / "store")
    assert read(tmp_path / "store") == {b"top": unnamed, b"other": named}
    tool("migrate-to-lmdb", "--main", "top", tmp_path / "store", tmp_path / "again")
    tool("migrate-from-lmdb", tmp_path / "again", tmp_path / "back")
    assert read(tmp_path / "back") == {b"main": unnamed, b"other": named}
    tool("migrate-to-lmdb", "--main", "nosuch", tmp_path / "store", tmp_path / "nothing", status=ERROR)
    assert not (tmp_path / "nothing").exists()


@lmdb
def test_databases_in_another_order_are_sorted(tmp_path):
    (tmp_path / "env").mkdir()
    entries = {bytes([n, 7 - n % 7]): b"v%d" % n for n in range(200)}
    ordered = dict(sorted(entries.items(), key=lambda kv: kv[0][::-1]))
    lmdb_load(tmp_path / "env", dump_of("backwards", ordered, "reversekey=1\n"))
    tool("migrate-from-lmdb", tmp_path / "env", tmp_path / "store")
    assert read(tmp_path / "store") == {b"backwards": entries}


@lmdb
def test_duplicate_keys_are_refused_by_name(tmp_path):
    (tmp_path / "env").mkdir()
    lmdb_load(tmp_path / "env", dump_of("plain", {b"a": b"1"}))
    lmdb_load(tmp_path / "env", dump_of("many", {b"a": b"1"}, "duplicates=1\ndupsort=1\n"))
    done = tool("migrate-from-lmdb", tmp_path / "env", tmp_path / "store", status=ERROR)
    assert b"'many' has duplicate keys" in done.stderr and not (tmp_path / "store").exists()


@lmdb
@pytest.mark.parametrize("key", [b"k" * 512, b""])
def test_keys_that_lmdb_cannot_have_are_refused(tmp_path, key):
    load(tmp_path / "store", {b"t": {b"a": b"1", key: b"2"}})
    done = tool("migrate-to-lmdb", tmp_path / "store", tmp_path / "env", status=ERROR)
    assert f"a key of {len(key)} bytes".encode() in done.stderr


@lmdb
def test_trees_with_entries_and_directories_that_are_there_are_refused(store, tmp_path):
    tool("migrate-to-lmdb", store, tmp_path / "env")
    tool("migrate-to-lmdb", store, tmp_path / "env", status=ERROR)
    tool("migrate-from-lmdb", tmp_path / "env", store, status=ERROR)
    tool("migrate-from-lmdb", tmp_path / "none", tmp_path / "new", status=ERROR)
    assert read(store) == TREES and not (tmp_path / "new").exists()
