"""pando-tool salvage: what is left of a damaged store, and what it says is lost."""

import os
import random
import re
import shutil
import subprocess

import pytest
import support
from pando_tool import (
    BRANCH, CATALOGUE, DAMAGE, ERROR, FINE, LEAF, LONG_RUN, PAGE, SPACE, flip, hit, lines, load,
    numbered, of_kind, read, records, result, root, tool,
)

pytestmark = pytest.mark.own


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
