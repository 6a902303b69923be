"""pando-tool: every command, its JSON, its exit status; damage with its place; beside a server."""

import base64
import json
import os
import pathlib
import pty
import random
import re
import shutil
import signal
import struct
import subprocess

import pytest
import redis
import support

pytestmark = pytest.mark.own

PAGE = 4096
RESERVED = 131072  # bytes of the metas
LEAF, BRANCH, OVERFLOW, SPACE, CATALOGUE, LONG_RUN = 1, 2, 3, 4, 5, 6
FINE, DAMAGE, ERROR = 0, 1, 2


# ---- calling it ---------------------------------------------------------------------------------


def tool(*arguments, status=FINE, input=None):
    """The completed process, whose exit status must be the one expected."""
    done = subprocess.run(
        [support.TOOL, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        input=b"" if input is None else input, timeout=support.LIMIT,
    )
    assert done.returncode == status, (done.returncode, done.stdout[-4000:], done.stderr[-4000:])
    return done


def lines(*arguments, status=FINE, **options):
    """The lines of --json, parsed: pairs (kind, object)."""
    done = tool(*arguments, "--json", status=status, **options)
    parsed = [json.loads(line) for line in done.stdout.splitlines()]
    pairs = [next(iter(line.items())) for line in parsed]
    assert all(len(line) == 1 for line in parsed)
    assert pairs[-1][0] == "result" and pairs[-1][1]["exit"] == status
    assert pairs[-1][1]["command"] == arguments[0]
    return pairs


def result(*arguments, **options):
    return lines(*arguments, **options)[-1][1]


def findings(*arguments):
    return [value for kind, value in lines(*arguments, status=DAMAGE) if kind == "finding"]


def dump(directory, *options):
    return tool("dump", *options, directory).stdout


# ---- data ---------------------------------------------------------------------------------------


def line_of(tree, key, value):
    def member(name, data):
        try:
            return {name: data.decode()}
        except UnicodeDecodeError:
            return {name + "64": base64.b64encode(data).decode()}

    return json.dumps({**member("tree", tree), **member("key", key), **member("value", value)})


def load(directory, trees, *options):
    """Makes a store of {tree: {key: value}}."""
    text = "\n".join(line_of(t, k, v) for t, e in trees.items() for k, v in e.items())
    return tool("load", *options, directory, input=text.encode())


def read(directory, *options):
    """What a store holds, as {tree: {key: value}}."""
    trees = {}

    def bytes_of(entry, name):
        if name in entry:
            return entry[name].encode()
        return base64.b64decode(entry[name + "64"])

    for line in dump(directory, "--format", "json", *options).splitlines():
        entry = json.loads(line)
        tree = trees.setdefault(bytes_of(entry, "tree"), {})
        if "key" in entry or "key64" in entry:
            tree[bytes_of(entry, "key")] = bytes_of(entry, "value")
    return trees


def numbered(count, size=100, prefix=b"key"):
    return {b"%s%06d" % (prefix, n): b"%06d" % n + b"v" * size for n in range(count)}


@pytest.fixture
def store(tmp_path):
    """A store of 20,000 entries in one tree and a few in another, with long ones."""
    directory = tmp_path / "store"
    trees = {b"main": numbered(20_000), b"other": numbered(50, prefix=b"o")}
    trees[b"main"][b"key000500x"] = b"R" * 20_000
    trees[b"main"][b"key000600x"] = b"L" * 300_000
    load(directory, trees)
    return directory, trees


# ---- damage -------------------------------------------------------------------------------------


def pages(directory):
    """(page, kind, level, birth, entries) of what looks like a page."""
    data = (pathlib.Path(directory) / "pando.db").read_bytes()
    found = []
    for offset in range(RESERVED, len(data) - PAGE + 1, PAGE):
        kind, level = data[offset + 4], data[offset + 5]
        number, birth = struct.unpack_from("<QQ", data, offset + 8)
        if 1 <= kind <= 6 and number == offset // PAGE:
            found.append((number, kind, level, birth, struct.unpack_from("<H", data, offset + 24)[0]))
    return found


def flip(path, offset, length=1):
    with open(path, "r+b") as file:
        file.seek(offset)
        old = file.read(length)
        file.seek(offset)
        file.write(bytes(byte ^ 0x55 for byte in old))


def hit(directory, *numbers):
    """Damages pages in the middle."""
    for number in numbers:
        flip(pathlib.Path(directory) / "pando.db", number * PAGE + 1000, 16)


def of_kind(directory, kind, level=None):
    """Pages of a kind, the newest first."""
    found = [p for p in pages(directory) if p[1] == kind and level in (None, p[2])]
    return sorted(found, key=lambda p: -p[3])


def root(directory):
    """The branch on the highest level."""
    return max(of_kind(directory, BRANCH), key=lambda p: (p[2], p[3]))


# ---- the program itself -------------------------------------------------------------------------


COMMANDS = ["check", "verify", "stat", "log", "dump", "load", "salvage"]


def test_its_manual_is_the_one_in_docs():
    assert tool("--manual").stdout.decode() == (support.ROOT / "docs/pando-tool.md").read_text()


def test_usage_help_and_manual_name_every_command_and_option():
    usage = tool("--help").stdout.decode()
    manual = tool("--manual").stdout.decode()
    for command in COMMANDS:
        text = tool(command, "--help").stdout.decode()
        assert text == tool("help", command).stdout.decode()
        assert f"\n  {command}" in usage and f"\n## {command}\n" in manual
        options = [word for word in text.split() if word.startswith("--")]
        assert "--json" in options
        assert all(option.strip(".,;:`()") in manual for option in options)


@pytest.mark.parametrize("words", [
    (), ("nosuch", "."), ("check",), ("check", ".", "."), ("check", "--nosuch", "."),
    ("check", "--tries", "0", "."), ("check", "--tries"), ("stat", "--quick=1", "."),
    ("check", "/no/such/directory"), ("salvage", "."), ("dump", "--format", "xml", "."),
    ("dump", "/no/such/directory"), ("load", "--durability", "some", "/no/such/directory"),
    ("load", "--append", "--replace", "/no/such/directory"),
])
def test_mistakes_in_a_call_are_explained_with_status_2(words):
    done = tool(*words, status=ERROR)
    assert done.stderr and not done.stdout


def test_an_empty_directory_is_no_store_and_stays_empty(tmp_path):
    for command in ("check", "verify", "stat", "log", "dump"):
        tool(command, tmp_path, status=ERROR)
    tool("salvage", tmp_path, tmp_path / "new", status=ERROR)
    assert not any(tmp_path.iterdir())


def test_a_failure_with_json_ends_in_a_result_too(tmp_path):
    last = result("check", tmp_path / "none", status=ERROR)
    assert last["status"] == "error" and "no such directory" in last["error"]["what"]


def test_mistakes_in_a_call_with_json_end_in_a_result_too(tmp_path):
    for words in (("check",), ("stat", "--nosuch", tmp_path), ("dump", "--format", "print", tmp_path)):
        last = result(*words, status=ERROR)
        assert last["status"] == "error" and last["error"]["what"]


def test_a_complaint_that_is_not_utf8_is_base64(store):
    done = tool("dump", "--json", "--tree", os.fsdecode(b"\xff"), store[0], status=ERROR)
    error = json.loads(done.stdout.splitlines()[-1])["result"]["error"]
    assert b"there is no tree '\xff'" == base64.b64decode(error["what64"])


@pytest.mark.parametrize("command", ["dump", "stat", "check", "log"])
def test_without_standard_streams_it_fails_and_writes_nothing_into_the_store(store, command):
    before = (store[0] / "pando.db").read_bytes()
    for closed in ((0, 1), (0, 1, 2), (1,)):
        process = subprocess.Popen([support.TOOL, command, store[0]], close_fds=True,
                                   preexec_fn=lambda: [os.close(fd) for fd in closed])
        assert process.wait(timeout=support.LIMIT) == ERROR
    tool("check", store[0])
    assert (store[0] / "pando.db").read_bytes()[RESERVED:] == before[RESERVED:]


def test_a_progress_bar_is_drawn_on_a_terminal_only(store):
    directory, _ = store
    assert tool("check", directory).stderr == b""
    controller, terminal = pty.openpty()
    with subprocess.Popen([support.TOOL, "check", str(directory)], stdout=subprocess.DEVNULL,
                          stderr=terminal) as process:
        assert process.wait(support.LIMIT) == 0
    os.close(terminal)
    drawn = b""
    try:
        while chunk := os.read(controller, 4096):
            drawn += chunk
    except OSError:
        pass  # the other end is closed
    os.close(controller)
    assert b"check [" in drawn and drawn.endswith(b"\r\x1b[K")


# ---- check, verify, stat, log -------------------------------------------------------------------


def test_check_and_verify_of_a_sound_store_find_nothing(store):
    directory, trees = store
    last = result("check", directory)
    assert last["findings"] == 0 and not last["beside_server"]
    assert last["checkpoint"]["entries"] == sum(map(len, trees.values()))
    assert [meta["state"] for meta in last["metas"]] == ["valid", "valid"]
    assert b"clean" in tool("check", directory).stdout
    assert result("verify", directory)["pages"] == sum(
        n for kind, n in result("stat", directory)["pages_by_kind"].items()
        if kind not in ("meta", "free")
    )


def test_stat_counts_pages_by_kind_and_entries_by_tree(store):
    directory, trees = store
    last = result("stat", directory)
    kinds = last["pages_by_kind"]
    assert sum(kinds.values()) == last["pages"] == last["files"]["data"] // PAGE
    assert kinds["overflow"] == 5 and kinds["long_run"] == 75 and kinds["space_map"] >= 1
    listed = {tree["name"].encode(): tree for tree in last["tree_list"]}
    assert {name: tree["entries"] for name, tree in listed.items()} == {
        name: len(entries) for name, entries in trees.items()
    }
    assert sum(tree["leaves"] for tree in listed.values()) == kinds["leaf"]
    assert listed[b"main"]["levels"] == last["levels"] == root(directory)[2] + 1
    assert 0.5 < listed[b"main"]["leaf_bytes"] / PAGE / listed[b"main"]["leaves"] <= 1
    text = tool("stat", directory).stdout.decode()
    assert "'main': 20002 entries" in text and "full to" in text


def test_stat_quick_reads_no_trees(store):
    directory, _ = store
    hit(directory, root(directory)[0])
    last = result("stat", "--quick", directory)
    assert last["entries"] == 20_052 and "pages_by_kind" not in last
    tool("stat", directory, status=DAMAGE)


@pytest.mark.parametrize("kind,command,word", [
    (LEAF, "check", "checksum"), (BRANCH, "check", "checksum"), (OVERFLOW, "check", "overflow run"),
    (LONG_RUN, "check", "overflow run"), (SPACE, "check", "space map"),
    (CATALOGUE, "check", "checksum"), (LEAF, "verify", "checksum"), (BRANCH, "verify", "checksum"),
    (OVERFLOW, "verify", "checksum of a run"), (LONG_RUN, "verify", "long run"),
])
def test_damage_is_found_with_its_place(store, kind, command, word):
    directory, _ = store
    page = of_kind(directory, kind)[0][0]
    where = 41 if kind in (CATALOGUE, LONG_RUN) else 1000
    flip(directory / "pando.db", page * PAGE + where, 2)
    found = findings(command, directory)
    assert any(f["file"].endswith("pando.db") and f["offset"] == page * PAGE and word in f["what"]
               for f in found), found
    text = tool(command, directory, status=DAMAGE).stdout.decode()
    assert f"at offset {page * PAGE}" in text


def test_a_stale_page_is_found_by_check_and_not_by_verify(tmp_path):
    directory = tmp_path / "store"
    load(directory, {b"t": numbered(1_000)})
    before = (directory / "pando.db").read_bytes()
    load(directory, {b"t": numbered(1_000, size=99)}, "--replace")
    data = bytearray((directory / "pando.db").read_bytes())
    tool("check", directory)
    live = [p for p in pages(directory) if p[1] == LEAF]
    for number, _, _, birth, _ in live:  # a lost write: what was there before is there again
        at = number * PAGE
        if before[at:at + PAGE] != data[at:at + PAGE] and before[at + 4] == LEAF:
            data[at:at + PAGE] = before[at:at + PAGE]
            (directory / "pando.db").write_bytes(data)
            break
    else:
        # no page was used again: one is made old by its birth, with a checksum that fits
        number = live[0][0]
        page = bytearray(data[number * PAGE:(number + 1) * PAGE])
        struct.pack_into("<Q", page, 16, struct.unpack_from("<Q", page, 16)[0] - 1)
        struct.pack_into("<I", page, 0, crc32c(bytes(page[4:])))
        data[number * PAGE:(number + 1) * PAGE] = page
        (directory / "pando.db").write_bytes(data)
    assert any("stale" in f["what"] for f in findings("check", directory))
    assert result("verify", directory)["findings"] == 0


def crc32c(data):
    table = []
    for n in range(256):
        for _ in range(8):
            n = (n >> 1) ^ (0x82F63B78 if n & 1 else 0)
        table.append(n)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ table[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


@pytest.mark.parametrize("meta", [0, 1])
def test_a_damaged_meta_is_a_finding_and_the_other_serves(store, meta):
    directory, _ = store
    flip(directory / "pando.db", meta * 65536 + 50, 4)
    for command in ("check", "verify"):
        found = findings(command, directory)
        assert [f["offset"] for f in found] == [meta * 65536], found
        assert f"meta {'AB'[meta]}" in found[0]["what"]


def test_without_metas_the_store_cannot_be_opened_and_that_is_damage(store):
    directory, _ = store
    flip(directory / "pando.db", 50, 4)
    flip(directory / "pando.db", 65586, 4)
    found = findings("check", directory)
    assert any("neither meta is valid" in f["what"] for f in found)
    tool("dump", directory, status=DAMAGE)


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


def records(directory, *options, status=FINE):
    return [value for kind, value in lines("log", *options, directory, status=status)
            if kind == "record"]


def test_log_lists_segments_records_and_operations(killed):
    shown = lines("log", "--ops", killed)
    segments = [value for kind, value in shown if kind == "segment"]
    assert {s["file"] for s in segments} == {p.name for p in killed.glob("log-0*")}
    assert any(s["kind"] == "used" for s in segments)
    listed = [value for kind, value in shown if kind == "record"]
    sequences = [r["sequence"] for r in listed]
    assert sequences == list(range(sequences[0], sequences[0] + len(sequences)))
    puts = [value for kind, value in shown if kind == "op" and value["op"] == "put"]
    assert len(puts) >= 40
    assert sum(1 for p in puts if "k17" in p.get("key", "")) >= 1
    last = shown[-1][1]["log"]
    assert last["commits"] == len(listed) and last["ops"] >= len(puts)
    assert last["torn_bytes"] == 0
    text = tool("log", killed).stdout.decode()
    assert f"record {sequences[0]}: {listed[0]['file']} at offset {listed[0]['offset']}" in text
    assert not [k for k, _ in lines("log", "--segments", killed) if k == "record"]


def test_a_torn_end_of_the_log_is_said_and_is_no_damage(killed):
    last = records(killed)[-1]
    # The last commit's own record says nothing of its being durable.
    flip(killed / last["file"], last["offset"] + 41)
    report = result("log", killed)["log"]
    assert report["torn_bytes"] > 0
    assert (report["torn_file"], report["torn_offset"]) == (last["file"], last["offset"])
    assert result("check", killed)["findings"] == 0


def test_damage_in_the_log_is_found_with_its_place(killed):
    middle = records(killed)[10]
    flip(killed / middle["file"], middle["offset"] + 41)
    for command in ("log", "check", "verify"):
        found = findings(command, killed)
        assert len(found) == 1 and found[0]["file"].endswith(middle["file"])
        assert found[0]["offset"] == middle["offset"]
        assert "was durable" in found[0]["what"]
    assert len(records(killed, status=DAMAGE)) == 10  # what is before it can be read


def test_a_missing_log_is_damage(killed):
    for path in killed.glob("log-0*"):
        path.unlink()
    assert any("log is missing" in f["what"] for f in findings("check", killed))


def test_log_reads_segments_one_by_one_when_no_meta_is_left(killed):
    expected = records(killed)
    flip(killed / "pando.db", 50, 4)
    flip(killed / "pando.db", 65586, 4)
    everything = records(killed)
    assert expected == everything[-len(expected):]
    assert records(killed, "--all") == everything


# ---- beside a running server --------------------------------------------------------------------


def test_check_verify_stat_and_log_work_beside_a_running_server(server, client):
    client.mset({f"k{n}": "x" * 300 for n in range(5_000)})
    client.save()
    for command in ("check", "verify", "stat"):
        last = result(command, server.directory)
        assert last["beside_server"] and last["findings"] == 0
    assert result("stat", server.directory)["entries"] >= 5_000
    client.set("later", "1")
    ops = [v for k, v in lines("log", "--ops", server.directory) if k == "op"]
    assert any("later" in op.get("key", "") for op in ops)
    assert client.get("later") == b"1"


def ask_for_a_checkpoint(client):
    try:
        client.bgsave()
    except redis.ResponseError as error:
        assert "already in progress" in str(error)


def test_check_beside_a_server_that_writes_and_checkpoints_has_no_false_findings(server, client):
    client.mset({f"k{n}": "x" * 200 for n in range(20_000)})
    client.save()
    with subprocess.Popen(
        ["redis-benchmark", "-p", str(server.port), "-t", "set", "-r", "20000", "-d", "200", "-P",
         "16", "-l"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as load_generator:
        try:
            for command in ("check", "verify", "log", "stat") * 3:
                ask_for_a_checkpoint(client)
                done = subprocess.run(
                    [support.TOOL, command, "--json", "--tries", "1000", str(server.directory)],
                    stdout=subprocess.PIPE, timeout=support.LIMIT,
                )
                assert done.returncode == FINE, done.stdout[-2000:]
        finally:
            load_generator.kill()


def test_check_finds_damage_beside_a_running_server(server, client):
    client.mset({f"k{n}": "x" * 300 for n in range(5_000)})
    client.save()
    leaves = of_kind(server.directory, LEAF)
    stat = result("stat", server.directory)
    hit(server.directory, *[p[0] for p in leaves])
    found = findings("check", server.directory)
    assert 0 < len(found) and stat["findings"] == 0
    hit(server.directory, *[p[0] for p in leaves])
    assert result("check", server.directory)["findings"] == 0


def test_salvage_dump_and_load_refuse_while_a_server_runs(server, tmp_path):
    for words in (("dump", server.directory), ("load", server.directory),
                  ("salvage", server.directory, tmp_path / "new")):
        done = tool(*words, status=ERROR)
        assert b"in use by a running server" in done.stderr and words[0].encode() in done.stderr
        assert "in use" in result(*words, status=ERROR)["error"]["what"]
    assert not (tmp_path / "new").exists()


# ---- dump and load ------------------------------------------------------------------------------


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


# ---- salvage ------------------------------------------------------------------------------------


def salvage(directory, tmp_path, status=DAMAGE):
    """What salvage says (its result and findings), and what it saved."""
    target = tmp_path / "saved"
    before = (directory / "pando.db").read_bytes()
    shown = lines("salvage", directory, target, status=status)
    assert (directory / "pando.db").read_bytes() == before
    assert result("check", target)["findings"] == 0
    return shown[-1][1], [v["what"] for k, v in shown if k == "finding"], read(target)


def test_salvage_of_a_sound_store_loses_nothing(store, tmp_path):
    directory, trees = store
    report, _, saved = salvage(directory, tmp_path, status=FINE)
    assert saved == trees and report["lost_entries"] == 0
    assert report["metas"] and report["catalogue"] and report["space_map"]


def test_salvage_never_writes_over_a_store(store):
    directory, trees = store
    tool("salvage", directory, directory, status=ERROR)
    assert read(directory) == trees


def test_salvage_says_which_keys_a_damaged_leaf_took_along(store, tmp_path):
    directory, trees = store
    leaf = of_kind(directory, LEAF)[30]
    hit(directory, leaf[0])
    report, said, saved = salvage(directory, tmp_path)
    lost = {(t, k) for t in trees for k in trees[t]} - {(t, k) for t in saved for k in saved[t]}
    assert len(lost) == leaf[4] == report["lost_entries"] and report["lost_subtrees"] == 1
    place = [text for text in said if "a leaf of tree 'main'" in text]
    assert len(place) == 1 and f"; {leaf[4]} entries, 0 of them found elsewhere" in place[0]
    low, high = re.search(r"keys from '(\w+)' to before '(\w+)'", place[0]).groups()
    assert {k for k in trees[b"main"] if low.encode() <= k < high.encode()} == {k for _, k in lost}
    assert all(saved[t][k] == trees[t][k] for t in saved for k in saved[t])


@pytest.mark.parametrize("level", [1, "root"])
def test_salvage_finds_all_leaves_below_a_damaged_branch(store, tmp_path, level):
    directory, trees = store
    branch = root(directory) if level == "root" else of_kind(directory, BRANCH, 1)[-1]
    hit(directory, branch[0])
    report, said, saved = salvage(directory, tmp_path)
    assert saved == trees
    assert report["lost_entries"] == 0 and report["orphan_entries"] > 100
    assert any("a branch of tree 'main'" in text for text in said)


def test_salvage_without_metas_takes_the_newest_catalogue(store, tmp_path):
    directory, trees = store
    flip(directory / "pando.db", 20, 200)
    flip(directory / "pando.db", 65536 + 20, 200)
    report, said, saved = salvage(directory, tmp_path)
    assert saved == trees and report["page_size"] == PAGE
    assert not report["metas"] and report["catalogue"]
    assert any("meta A" in text for text in said) and any("meta B" in text for text in said)


def test_salvage_without_a_catalogue_keeps_the_entries_without_their_names(store, tmp_path):
    directory, trees = store
    for page in of_kind(directory, CATALOGUE):
        flip(directory / "pando.db", page[0] * PAGE + 41, 2)
    report, said, saved = salvage(directory, tmp_path)
    assert not report["catalogue"] and any("names of trees are lost" in text for text in said)
    # The newest root first.
    assert saved == {b"lost+found.1": trees[b"other"], b"lost+found.2": trees[b"main"]}


def test_salvage_of_two_lost_roots_does_not_guess(tmp_path):
    directory = tmp_path / "store"
    trees = {b"a": numbered(3_000), b"b": numbered(3_000, prefix=b"kez")}
    load(directory, trees)
    hit(directory, *[p[0] for p in of_kind(directory, BRANCH)])
    report, said, saved = salvage(directory, tmp_path)
    # Leaves with keys of either fit in both places, and do not say which tree they are of.
    assert saved == {b"a": {}, b"b": {}, b"lost+found": {**trees[b"a"], **trees[b"b"]}}
    assert report["orphan_entries"] == 6_000


def test_salvage_loses_a_damaged_long_value_and_names_its_key(store, tmp_path):
    directory, trees = store
    run = of_kind(directory, LONG_RUN)[0][0]
    flip(directory / "pando.db", (run + 20) * PAGE + 7)
    report, said, saved = salvage(directory, tmp_path)
    assert report["lost_values"] == 1
    assert any("value of key 'key000600x' of tree 'main' is lost, 300000 bytes" in t for t in said)
    del trees[b"main"][b"key000600x"]
    assert saved == trees


def test_salvage_with_a_damaged_space_map_still_has_everything(store, tmp_path):
    directory, trees = store
    flip(directory / "pando.db", of_kind(directory, SPACE)[0][0] * PAGE + 1000)
    report, said, saved = salvage(directory, tmp_path)
    assert saved == trees and not report["space_map"]
    assert any("which pages are in use is not known" in text for text in said)


def test_salvage_without_the_newest_catalogue_finds_newer_versions_of_an_older_ones_trees(tmp_path):
    directory = tmp_path / "store"
    trees = {b"a": numbered(3_000), b"b": numbered(3_000, prefix=b"kez")}
    load(directory, trees)
    change = {b"a": {b"key001500": b"changed"}}
    load(directory, change, "--replace")
    trees[b"a"].update(change[b"a"])
    newest = of_kind(directory, CATALOGUE)[0]
    flip(directory / "pando.db", newest[0] * PAGE + 41, 2)
    report, said, saved = salvage(directory, tmp_path)
    assert saved == trees and report["lost_entries"] == 0
    assert any("one of an older checkpoint" in text for text in said)
    assert any("a newer version of tree 'a'" in text for text in said)


def test_salvage_of_a_file_that_was_cut_short(store, tmp_path):
    directory, trees = store
    path = directory / "pando.db"
    leaves = sorted(p[0] for p in of_kind(directory, LEAF))
    os.truncate(path, (leaves[len(leaves) // 2] * PAGE) + 100)
    report, said, saved = salvage(directory, tmp_path)
    assert any("the file ends here" in text for text in said)
    entries = {k: v for tree in saved.values() for k, v in tree.items()}
    everything = {k: v for tree in trees.values() for k, v in tree.items()}
    assert len(entries) > 5_000
    assert all(everything[k] == v for k, v in entries.items())


def test_salvage_applies_the_log_up_to_where_it_can_be_read(killed, tmp_path):
    whole = {k for tree in read_copy(killed, tmp_path / "copy").values() for k in tree}
    hit_record = records(killed)[20]
    report, _, saved = salvage(killed, tmp_path, status=FINE)
    assert {k for tree in saved.values() for k in tree} == whole
    assert report["log_commits"] == 40
    shutil.rmtree(tmp_path / "saved")
    flip(killed / hit_record["file"], hit_record["offset"] + 41)
    report, said, saved = salvage(killed, tmp_path)
    assert report["log_commits"] == 20
    assert any("commits from there on are lost" in text for text in said)
    keys = {k for tree in saved.values() for k in tree}
    assert keys < whole and any(b"k19" in k for k in keys) and not any(b"k20" in k for k in keys)


def read_copy(directory, copy):
    shutil.copytree(directory, copy)
    return read(copy)


def test_salvage_without_metas_applies_the_log_from_its_oldest_segment(killed, tmp_path):
    whole = read_copy(killed, tmp_path / "copy")
    flip(killed / "pando.db", 20, 200)
    flip(killed / "pando.db", 65536 + 20, 200)
    report, _, saved = salvage(killed, tmp_path)
    assert report["log_commits"] >= 40
    assert {t: e for t, e in saved.items() if e} == {t: e for t, e in whole.items() if e}


def test_a_server_starts_on_what_was_salvaged(make_server, server, client, tmp_path):
    client.mset({f"k{n}": "x" * 300 for n in range(5_000)})
    server.stop()
    hit(server.directory, root(server.directory)[0])
    tool("salvage", server.directory, tmp_path / "saved", status=DAMAGE)
    again = make_server(directory="saved").start()
    with again.client() as second:
        assert second.dbsize() == 5_000
        assert second.get("k4999") == b"x" * 300


@pytest.mark.parametrize("seed", range(8))
def test_salvage_of_random_damage_ends_and_what_it_saves_is_true(tmp_path, seed):
    rng = random.Random(seed)
    directory = tmp_path / "store"
    trees = {b"t%d" % t: numbered(rng.randrange(1, 4_000), size=rng.randrange(300),
                                  prefix=rng.choice([b"key", b"kez"])) for t in range(3)}
    load(directory, trees)
    size = (directory / "pando.db").stat().st_size
    for _ in range(rng.choice([1, 10, 100])):
        at = rng.choice([rng.randrange(512), rng.randrange(65536, 66048), rng.randrange(size)])
        flip(directory / "pando.db", at, rng.choice([1, 8, 4096]))
    done = subprocess.run([support.TOOL, "salvage", directory, tmp_path / "saved"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=support.LIMIT)
    assert done.returncode in (FINE, DAMAGE), done.stderr
    everything = {(k, v) for tree in trees.values() for k, v in tree.items()}
    saved = read(tmp_path / "saved")
    assert {(k, v) for tree in saved.values() for k, v in tree.items()} <= everything
    tool("check", tmp_path / "saved")
