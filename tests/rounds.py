"""How suites say what they ran, in one place.

Invariants:
 1. A suite's last line is `SUITE name required=R executed=E passed=P failed=F skipped=S`, with
    E = P + F. A suite that prints no such line has failed, whatever its exit status.
 2. `tests/expected-rounds` names every program or file of tests with its number of tests. A test
    that vanishes, and one that appears without being counted, both fail: only the table can say
    how many there must be.
"""

import collections
import pathlib
import re

TESTS = pathlib.Path(__file__).resolve().parent
TABLE = TESTS / "expected-rounds"

Result = collections.namedtuple("Result", "name required executed passed failed skipped")

LINE = re.compile(
    r"^SUITE (\S+) required=(\d+) executed=(\d+) passed=(\d+) failed=(\d+) skipped=(\d+)$"
)


def format_line(name, required, passed, failed, skipped):
    return (
        f"SUITE {name} required={required} executed={passed + failed} "
        f"passed={passed} failed={failed} skipped={skipped}"
    )


def parse_line(line):
    """The result a line holds, or None when it is no suite line or its numbers disagree."""
    match = LINE.match(line.rstrip("\n"))
    if not match:
        return None
    result = Result(match[1], *(int(n) for n in match.groups()[1:]))
    return result if result.executed == result.passed + result.failed else None


def load_expected(suite):
    """{name below the suite: number of tests} for one suite of the table."""
    expected = {}
    for number, line in enumerate(TABLE.read_text().splitlines(), 1):
        words = line.split("#", 1)[0].split()
        if not words:
            continue
        if len(words) != 2 or "/" not in words[0] or not words[1].isdigit():
            raise SystemExit(f"{TABLE}:{number}: expected 'suite/name count'")
        head, name = words[0].split("/", 1)
        if head == suite:
            expected[name] = int(words[1])
    return expected


def store_expected(suite, counts):
    """Rewrites one suite's lines of the table, leaving the comments and the others."""
    kept = [
        line
        for line in TABLE.read_text().splitlines()
        if not line.split("#", 1)[0].strip().startswith(suite + "/")
    ]
    kept += [f"{suite}/{name} {count}" for name, count in sorted(counts.items())]
    head = [line for line in kept if line.startswith("#") or not line.strip()]
    TABLE.write_text("\n".join(head + sorted(set(kept) - set(head))) + "\n")


def differences(suite, counts):
    """Sentences about where the tests that there are differ from the table."""
    expected = load_expected(suite)
    for name in sorted(set(expected) | set(counts)):
        want, have = expected.get(name, 0), counts.get(name, 0)
        if want != have:
            yield f"{suite}/{name}: {have} tests, {TABLE.name} says {want}"
