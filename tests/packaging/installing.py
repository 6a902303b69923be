"""What the tests of packaging share: make, tools that may be missing, and integration's support."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))
import support  # noqa: E402

# The folder of the build under test; all is built already, and by the same compiler, so that
# installing compiles nothing. Named as make names it, which knows its objects by these names.
BUILD = pathlib.Path(os.path.relpath(pathlib.Path(support.PANDOD).parent, support.ROOT))


def make(*arguments):
    """What make says, free of what an outer make has set."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    compiler = (support.ROOT / BUILD / "obj/flags").read_text().split(" -std=")[0]
    return subprocess.run(
        ["make", "--no-print-directory", "-s", f"BUILD={BUILD}", f"CC={compiler}", *arguments],
        cwd=support.ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, check=True, timeout=support.LIMIT * 5,
    ).stdout


def need(*programs):
    """Skips a test whose tools are missing, saying which."""
    missing = [program for program in programs if not shutil.which(program)]
    if missing:
        pytest.skip("missing: " + ", ".join(missing))
