#!/usr/bin/python3
"""The check runner notices suites that lie, die, hang, or run less than they must."""

import contextlib
import functools
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

import rounds


def load_run_check():
    path = str(rounds.TESTS / "run-check")
    loader = importlib.machinery.SourceFileLoader("run_check", path)
    spec = importlib.util.spec_from_loader("run_check", loader)
    module = importlib.util.module_from_spec(spec)
    sys.modules["run_check"] = module
    loader.exec_module(module)
    return module


sys.dont_write_bytecode = True
run_check = load_run_check()


class Runner(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def run_script(self, script, required=2, budget=5, needs=(), environment=None):
        """Runs one suite that is a shell script: (exit status, lines printed)."""
        path = pathlib.Path(self.folder.name) / "suite.sh"
        path.write_text(script)
        suite = run_check.Suite("sample", f"/bin/sh {path}", required, budget, needs)
        output = io.StringIO()
        with mock.patch.dict(os.environ, environment or {"REQUIRE_ALL": "0"}):
            check = run_check.Check(types.SimpleNamespace(build=self.folder.name, seed=1))
            with mock.patch.object(check, "build", return_value=True):
                with contextlib.redirect_stdout(output):
                    status = check.run((("gcc", {}, (suite,)),))
        return status, output.getvalue().splitlines()

    def test_a_suite_that_ran_what_it_must_passes(self):
        line = rounds.format_line("sample", 2, 2, 0, 0)
        status, lines = self.run_script(f"echo noise; echo NOTE seen; echo {line}")
        self.assertEqual((status, lines[-1]), (0, "2 passed, 0 failed, 0 skipped"))
        self.assertIn("       seen", lines)

    def test_fewer_rounds_than_required_are_a_failure(self):
        line = rounds.format_line("sample", 1, 1, 0, 0)
        status, lines = self.run_script(f"echo {line}")
        self.assertEqual((status, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))
        self.assertIn("    ! only 1 of 2 required rounds", lines)

    def test_a_suite_without_a_last_line_has_failed_whatever_its_status(self):
        line = rounds.format_line("sample", 2, 2, 0, 0)
        status, lines = self.run_script(f"echo {line}; echo more; exit 0")
        self.assertEqual((status, lines[-1]), (1, "0 passed, 1 failed, 0 skipped"))

    def test_numbers_that_disagree_are_no_result(self):
        line = "SUITE sample required=2 executed=2 passed=1 failed=0 skipped=0"
        self.assertIsNone(rounds.parse_line(line))
        self.assertEqual(self.run_script(f"echo {line}")[0], 1)

    def test_a_bad_exit_status_is_a_failure_though_all_rounds_passed(self):
        line = rounds.format_line("sample", 2, 2, 0, 0)
        status, lines = self.run_script(f"echo {line}; exit 3")
        self.assertEqual((status, lines[-1]), (1, "2 passed, 1 failed, 0 skipped"))

    def test_failed_rounds_are_counted(self):
        line = rounds.format_line("sample", 3, 2, 1, 0)
        status, lines = self.run_script(f"echo {line}; exit 1", required=3)
        self.assertEqual((status, lines[-1]), (1, "2 passed, 1 failed, 0 skipped"))

    def test_of_a_failed_suite_the_lines_that_say_what_failed_come_first_and_then_the_end(self):
        line = rounds.format_line("sample", 2, 1, 1, 0)
        noise = "seq 1 200"
        _, lines = self.run_script(f"echo FAILED early; echo '  x: FAILED: too'; {noise}; echo {line}")
        told = [text for text in lines if text.startswith("    > ")]
        self.assertEqual(told, ["    > FAILED early", "    >   x: FAILED: too"])
        tail = [text for text in lines if text.startswith("    | ")]
        self.assertEqual((len(tail), tail[-1]), (run_check.TAIL, f"    | {line}"))
        self.assertLess(lines.index(told[-1]), lines.index(tail[0]))

    def test_of_many_lines_that_say_what_failed_the_first_are_shown(self):
        line = rounds.format_line("sample", 2, 1, 1, 0)
        _, lines = self.run_script(f"seq -f 'FAILED %g' 1 30; seq 1 100; echo {line}")
        told = [text for text in lines if text.startswith("    > ")]
        self.assertEqual(told[0], "    > FAILED 1")
        self.assertEqual(told[-1], "    > (10 more such lines)")
        self.assertEqual(len(told), run_check.MOST_TELLING + 1)

    def test_a_suite_that_does_not_end_is_ended_with_all_its_processes(self):
        # The child holds the pipe's other end as long as it lives.
        read, write = os.pipe()
        os.set_inheritable(write, True)
        popen = functools.partial(subprocess.Popen, pass_fds=(write,))
        with mock.patch.object(run_check, "HARD", 0.2), mock.patch.object(subprocess, "Popen", popen):
            status, lines = self.run_script("sleep 1000 & wait", budget=1)
        os.close(write)
        self.assertEqual((status, lines[-1]), (1, "0 passed, 1 failed, 0 skipped"))
        self.assertEqual(os.read(read, 1), b"")
        os.close(read)

    def test_what_is_missing_skips_with_a_reason_or_fails_when_all_is_required(self):
        needs = ("no-such-program",)
        status, lines = self.run_script("exit 1", needs=needs)
        self.assertEqual((status, lines[-1]), (0, "0 passed, 0 failed, 2 skipped"))
        self.assertTrue(any("missing: no-such-program" in line for line in lines))
        status, lines = self.run_script("exit 1", needs=needs, environment={"REQUIRE_ALL": "1"})
        self.assertEqual((status, lines[-1]), (1, "0 passed, 1 failed, 0 skipped"))

    def test_skipped_rounds_fail_when_all_is_required(self):
        line = rounds.format_line("sample", 2, 1, 0, 1)
        self.assertEqual(self.run_script(f"echo {line}")[0], 0)
        self.assertEqual(self.run_script(f"echo {line}", environment={"REQUIRE_ALL": "1"})[0], 1)

    def test_a_test_that_vanished_or_was_not_counted_is_named(self):
        with mock.patch.object(rounds, "load_expected", return_value={"a": 2, "b": 1}):
            sentences = list(rounds.differences("unit", {"a": 2, "c": 1}))
        self.assertEqual(len(sentences), 2)
        self.assertIn("unit/b: 0 tests", sentences[0])
        self.assertIn("unit/c: 1 tests", sentences[1])


def main():
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(Runner)
    required = suite.countTestCases()
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    failed = len(result.failures) + len(result.errors)
    passed = result.testsRun - failed
    print(rounds.format_line("runner", required, passed, failed, 0))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
