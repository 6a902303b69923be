"""pando-tool: check, verify, stat and log, their JSON and exit status; damage with its place; beside a server."""

import base64
import json
import os
import pty
import struct
import subprocess

import pytest
import redis
import support
from pando_tool import (
    BRANCH, CATALOGUE, DAMAGE, ERROR, FINE, LEAF, LONG_RUN, OVERFLOW, PAGE, RESERVED, SPACE,
    findings, flip, hit, lines, load, numbered, of_kind, pages, records, result, root, tool,
)

pytestmark = pytest.mark.own


# ---- the program itself -------------------------------------------------------------------------


COMMANDS = ["check", "verify", "stat", "log", "dump", "load", "copy", "compact", "migrate-from-lmdb",
            "migrate-to-lmdb", "salvage"]


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
    # Not too many checkpoints: a tool slowed by a sanitizer would begin again for ever.
    client.config_set("max-recovery-time", 3_000)
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
