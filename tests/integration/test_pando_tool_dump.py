"""pando-tool dump and load: what goes out comes back, LMDB reads it, and what is malformed is refused."""

import json
import random
import shutil
import signal
import subprocess

import pytest
import support
from pando_tool import ERROR, FINE, dump, line_of, load, read, result, tool

pytestmark = pytest.mark.own


def awkward(seed):
    """Trees with binary names, keys and values of all lengths."""
    rng = random.Random(seed)
    keys = {b"", b"\0", b"\\", b" lead", b"DATA=END", b"\n", b"\r\n", b"\xff" * 300, b"{", "é".encode(),
            b"\xc3", b"k" * 70_000}
    keys |= {rng.randbytes(rng.randrange(40)) for _ in range(500)}
    values = [b"", b"\0", b"v\\\n", rng.randbytes(100), rng.randbytes(5_000), rng.randbytes(70_000)]
    return {
        b"plain": {key: rng.choice(values) for key in keys},
        b"\xff\0\n=name": {b"a": b"b"},
        b"long": {b"value": rng.randbytes(3_000_000)},
    }


@pytest.mark.parametrize("form", ["bytevalue", "print", "json"])
def test_dump_load_dump_is_identical(tmp_path, form):
    trees = awkward(form)
    load(tmp_path / "one", trees)
    first = dump(tmp_path / "one", "--format", form)
    tool("load", tmp_path / "two", input=first)
    assert dump(tmp_path / "two", "--format", form) == first
    assert read(tmp_path / "two") == trees
    tool("check", tmp_path / "two")


def test_empty_trees_survive(tmp_path):
    header = b"VERSION=3\nformat=print\ndatabase=%s\ntype=btree\nHEADER=END\nDATA=END\n"
    tool("load", tmp_path / "one", input=header % b"a" + header % b"b")
    for form in ("bytevalue", "json"):
        tool("load", tmp_path / form, input=dump(tmp_path / "one", "--format", form))
        assert read(tmp_path / form) == {b"a": {}, b"b": {}}


def test_a_dump_has_entries_in_the_order_of_keys_and_chosen_trees_only(store):
    directory, trees = store
    entries = [json.loads(line) for line in dump(directory, "--format", "json", "--tree", "main").splitlines()]
    keys = [entry["key"].encode() for entry in entries if "key" in entry]
    assert keys == sorted(trees[b"main"])
    assert set(read(directory, "--tree", "other", "--tree", "main")) == {b"other", b"main"}
    tool("dump", "--tree", "nosuch", "--output", directory / "new", directory, status=ERROR)
    assert not (directory / "new").exists()


def test_dump_to_a_file_does_not_overwrite_one(store, tmp_path):
    directory, _ = store
    last = result("dump", "--format", "print", "--output", tmp_path / "file", directory)
    assert last["entries"] == 20_052 and last["trees"] == 2
    assert (tmp_path / "file").read_bytes() == dump(directory, "--format", "print")
    tool("dump", "--output", tmp_path / "file", directory, status=ERROR)


def test_a_dump_with_json_can_be_loaded_result_line_and_all(store, tmp_path):
    directory, trees = store
    load_input = tool("dump", "--json", directory).stdout
    assert b'"result"' in load_input.splitlines()[-1]
    tool("load", tmp_path / "copy", input=load_input)
    assert read(tmp_path / "copy") == trees


def test_dump_replays_the_log_unless_the_checkpoint_is_asked_for(killed, tmp_path):
    shutil.copytree(killed, tmp_path / "copy")
    before = {p.name: p.read_bytes() for p in killed.iterdir()}
    at_checkpoint = dump(killed, "--checkpoint", "--format", "json")
    assert {p.name: p.read_bytes() for p in killed.iterdir()} == before
    assert b"k17" not in at_checkpoint
    assert b"k17" in dump(tmp_path / "copy", "--format", "json")


def test_append_keeps_and_replace_overwrites_what_is_there(tmp_path):
    directory = tmp_path / "store"
    load(directory, {b"t": {b"a": b"1", b"b": b"2"}})
    more = line_of(b"t", b"b", b"new") + "\n" + line_of(b"t", b"c", b"3")
    done = tool("load", directory, input=more.encode(), status=ERROR)
    assert b"--append" in done.stderr
    assert read(directory) == {b"t": {b"a": b"1", b"b": b"2"}}
    last = result("load", "--append", directory, input=more.encode())
    assert (last["entries"], last["kept"]) == (1, 1)
    assert read(directory) == {b"t": {b"a": b"1", b"b": b"2", b"c": b"3"}}
    assert result("load", "--replace", directory, input=more.encode())["entries"] == 2
    assert read(directory)[b"t"] == {b"a": b"1", b"b": b"new", b"c": b"3"}


def test_load_sorts_and_of_equal_keys_the_last_counts(tmp_path):
    keys = [b"%05d" % n for n in range(5_000)]
    random.Random(5).shuffle(keys)
    text = "\n".join(line_of(b"t", k, v) for v in (b"old", b"new") for k in keys)
    tool("load", "--transaction", "700", tmp_path / "store", input=text.encode(), status=FINE)
    assert read(tmp_path / "store") == {b"t": {k: b"new" for k in sorted(keys)}}


def test_load_into_a_named_tree_and_with_a_page_size(tmp_path):
    text = b"VERSION=3\nformat=print\ntype=btree\nHEADER=END\n a\n 1\nDATA=END\n"
    tool("load", tmp_path / "one", input=text, status=ERROR)  # it does not say which tree
    tool("load", "--tree", "mine", "--page-size", "16384", tmp_path / "two", input=text)
    assert read(tmp_path / "two") == {b"mine": {b"a": b"1"}}
    assert result("stat", tmp_path / "two")["page_size"] == 16384
    tool("load", "--tree", "x", tmp_path / "three", input=text + text.replace(b"type", b"database=b\ntype"),
         status=ERROR)


@pytest.mark.parametrize("text,line", [
    (b"hello\n", 1), (b"VERSION=2\nformat=print\n", 1), (b"VERSION=3\nformat=odd\n", 2),
    (b"VERSION=3\ntype=hash\n", 2), (b"VERSION=3\nduplicates=1\n", 2),
    (b"VERSION=3\ndatabase=t\nHEADER=END\n 6\n 61\nDATA=END\n", 4),
    (b"VERSION=3\ndatabase=t\nHEADER=END\n 61\n xx\nDATA=END\n", 5),
    (b"VERSION=3\ndatabase=t\nHEADER=END\n61\n 61\nDATA=END\n", 4),
    (b"VERSION=3\ndatabase=t\nformat=print\nHEADER=END\n \\6\n 61\nDATA=END\n", 5),
    (b"VERSION=3\ndatabase=t\nHEADER=END\n 61\n 61\n", 5),
    (b"VERSION=3\ndatabase=t\nHEADER=END\n 61\n", 4),
    (b'{"tree":"t","key":"a","value":1}\n', 1), (b'{"tree":"t","key":"a"}\n', 1),
    (b'{"tree":"t","entries":1}\n{"tree":"t","key":"a","value":"1"}\n', 2),
    (b'{"tree":"t","key":"a","value64":"a"}\n', 1), (b'{"tree":"","key":"a","value":""}\n', 1),
    (b'{"key":"a","value":""}\n', 1), (b'{"tree":"t","key":"a"\n', 1), (b"{}\n[]\n", 1),
    (b'{"tree":"t","entries":1}\n{"tree":"u","key":"a","value":"1"}\n', 2),
    (b'{"tree":"t","end":true}\n{"tree":"t","key":"a","value":"1"}\n', 1),
])
def test_a_malformed_dump_is_refused_with_the_line(tmp_path, text, line):
    done = tool("load", tmp_path / "store", input=text, status=ERROR)
    assert b"line %d of the input" % line in done.stderr, done.stderr


def test_the_entries_of_trees_may_be_mixed_but_a_tree_that_was_there_is_refused(tmp_path):
    text = "\n".join(line_of(b"t%d" % (n % 3), b"%d" % n, b"v") for n in range(9))
    assert result("load", tmp_path / "store", input=text.encode())["trees"] == 3
    assert {t: len(e) for t, e in read(tmp_path / "store").items()} == {b"t0": 3, b"t1": 3, b"t2": 3}
    tool("load", tmp_path / "store", input=text.encode(), status=ERROR)


def test_a_database_whose_name_has_a_backslash_keeps_it(tmp_path):
    text = b"VERSION=3\ndatabase=%s\nHEADER=END\n 61\n 62\nDATA=END\n"
    tool("load", tmp_path / "store", input=text % b"a\\z" + text % b"b\\" + text % b"c\\5cd")
    assert set(read(tmp_path / "store")) == {b"a\\z", b"b\\", b"c\\d"}


def test_entries_before_a_malformed_line_are_loaded(tmp_path):
    text = line_of(b"t", b"a", b"1") + "\nnonsense\n"
    tool("load", tmp_path / "store", input=text.encode(), status=ERROR)
    assert read(tmp_path / "store") == {b"t": {b"a": b"1"}}


def commits_in(directory):
    """Commits in the log of a store that is being loaded; 0: it is not there yet."""
    done = subprocess.run([support.TOOL, "log", "--json", str(directory)], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, timeout=support.LIMIT)
    ends = [json.loads(line) for line in done.stdout.splitlines()[-1:]]
    return ends[0].get("result", {}).get("log", {}).get("commits", 0) if ends else 0


def test_an_interrupted_load_leaves_whole_transactions(tmp_path):
    directory = tmp_path / "store"
    loader = subprocess.Popen(
        [support.TOOL, "load", "--transaction", "100", "--durability", "everysec", str(directory)],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
    )
    for n in range(1_050):
        loader.stdin.write(line_of(b"t", b"%06d" % n, b"v" * 50).encode() + b"\n")
    loader.stdin.flush()
    # One commit makes the tree; the 50 entries behind the tenth hundred wait for more.
    support.wait_for(lambda: commits_in(directory) >= 11, "ten transactions")
    loader.send_signal(signal.SIGKILL)
    loader.wait()
    loader.stdin.close()
    assert sorted(read(directory)[b"t"]) == [b"%06d" % n for n in range(1_000)]
    tool("check", directory)


needs_lmdb = pytest.mark.skipif(not (shutil.which("mdb_dump") and shutil.which("mdb_load")),
                                reason="lmdb-utils is not installed")


@needs_lmdb
@pytest.mark.parametrize("form", ["bytevalue", "print"])
def test_lmdb_reads_our_dumps_and_we_read_lmdbs(tmp_path, form):
    rng = random.Random(8)
    # mdb_dump -p writes a backslash as it is, which nobody can read back.
    clean = (lambda data: data.replace(b"\\", b"/")) if form == "print" else (lambda data: data)
    trees = {b"one": {clean(b"k" + rng.randbytes(rng.randrange(1, 100))): clean(rng.randbytes(rng.randrange(3_000)))
                      for _ in range(100)},
             b"two": {clean(b"b\\s"): clean(b"\\\\")}}
    load(tmp_path / "ours", trees)
    (tmp_path / "lmdb").mkdir()
    for tree in ("one", "two"):
        text = dump(tmp_path / "ours", "--tree", tree, "--format", form)
        done = subprocess.run(["mdb_load", "-s", tree, tmp_path / "lmdb"], input=text,
                              stderr=subprocess.PIPE, check=True)
        assert done.stderr == b""
    flags = ["-a", "-p"] if form == "print" else ["-a"]
    text = subprocess.run(["mdb_dump", *flags, tmp_path / "lmdb"], stdout=subprocess.PIPE,
                          check=True).stdout
    tool("load", tmp_path / "back", input=text)
    assert read(tmp_path / "back") == trees
