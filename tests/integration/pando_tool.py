"""Calling pando-tool, making stores with it, and damaging them: what its tests share."""

import base64
import json
import pathlib
import struct
import subprocess

import support

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


def records(directory, *options, status=FINE):
    return [value for kind, value in lines("log", *options, directory, status=status)
            if kind == "record"]


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
