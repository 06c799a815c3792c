"""compare: its statistics against known values, its table, its errors."""
import contextlib
import importlib.machinery
import importlib.util
import io
import pathlib
import random
import stat
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parent / "compare"
LOADER = importlib.machinery.SourceFileLoader("compare", str(SCRIPT))
compare = importlib.util.module_from_spec(importlib.util.spec_from_loader("compare", LOADER))
LOADER.exec_module(compare)


def quiet_main(*arguments):
    """(exit code, standard error)"""
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
        try:
            code = compare.main(list(arguments))
        except SystemExit as end:
            code = end.code
    return code, errors.getvalue()


class Statistics(unittest.TestCase):
    def test_exact_p_of_separated_samples(self):
        # All of a above all of b: the two extreme orders of C(8,4) = 70.
        self.assertAlmostEqual(compare.mann_whitney([5.0, 6.0, 7.0, 8.0], [1.0, 2.0, 3.0, 4.0]), 2 / 70)
        self.assertAlmostEqual(compare.mann_whitney([1.0, 4.0], [2.0, 3.0]), 1.0)

    def test_equal_samples_are_not_different(self):
        self.assertEqual(compare.mann_whitney([1.0] * 5, [1.0] * 5), 1.0)

    def test_approximation_agrees_with_exact(self):
        generator = random.Random(3)
        a, b = [generator.gauss(0, 1) for _ in range(8)], [generator.gauss(1, 1) for _ in range(8)]
        u = sum(x > y for x in a for y in b)
        self.assertAlmostEqual(compare.exact_p(a, b, u), compare.approximate_p(a, b, u), delta=0.01)

    def test_false_alarms_are_as_rare_as_promised(self):
        generator = random.Random(4)
        alarms = sum(compare.mann_whitney([generator.random() for _ in range(6)], [generator.random() for _ in range(6)]) < 0.05
                     for _ in range(400))
        self.assertLess(alarms, 400 * 0.05 + 4 * (400 * 0.05 * 0.95) ** 0.5)

    def test_holm_is_stricter_with_more_lines(self):
        self.assertEqual(compare.holm([0.03]), [True])
        self.assertEqual(compare.holm([0.03, 0.5]), [False, False])
        self.assertEqual(compare.holm([0.01, 0.04, 0.9]), [True, False, False])

    def test_interval_holds_the_ratio(self):
        low, high = compare.bootstrap([2.0, 2.1, 1.9, 2.05], [1.0, 1.02, 0.98, 1.01])
        self.assertLess(low, 2.0)
        self.assertGreater(high, 2.0)
        self.assertGreater(low, 1.8)


class Table(unittest.TestCase):
    def test_times_are_found_in_rows_and_below(self):
        result = {"heads": 8, "rows": [{"length": 64, "forward": {"seconds": 2.0, "ratio": 3.0}, "step_seconds": 1.0}],
                  "models": [{"threads": 2, "seconds": 4.0}]}
        self.assertEqual(compare.times(result), {"length=64 forward.seconds": 2.0, "length=64 step_seconds": 1.0,
                                                 "models threads=2 seconds": 4.0})

    def test_a_clear_gain_is_marked(self):
        base, head = {"x": [2.0, 2.1, 2.2, 1.9, 2.05]}, {"x": [1.0, 1.1, 1.2, 0.9, 1.05], "new": [1.0] * 5}
        lines = list(compare.table(base, head))
        self.assertEqual(len(lines), 2)
        self.assertIn("*", lines[1])

    def test_nothing_in_common_is_an_error(self):
        with self.assertRaises(compare.Failure):
            list(compare.table({"x": [1.0]}, {"y": [1.0]}))


class Runs(unittest.TestCase):
    def program(self, body):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        file = pathlib.Path(folder.name) / "darkformer"
        file.write_text("#!/bin/sh\n" + body)
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
        return file

    def test_both_are_run_in_turn(self):
        programs = [self.program(f"echo remark; echo '{{\"rows\": [{{\"length\": 1, \"seconds\": {s}}}]}}'\n") for s in (2, 1)]
        with contextlib.redirect_stderr(io.StringIO()) as progress:
            base, head = compare.measure(programs, ["old", "new"], ["gemm"], 4)
        self.assertEqual(base, {"length=1 seconds": [2] * 4})
        self.assertEqual(head, {"length=1 seconds": [1] * 4})
        self.assertEqual([line.split()[-1] for line in progress.getvalue().splitlines()][:4], ["old", "new", "new", "old"])

    def test_a_failing_run_is_named(self):
        with self.assertRaisesRegex(compare.Failure, "old: bench gemm: darkformer: no memory"):
            compare.run(self.program("echo 'darkformer: no memory' >&2; exit 1\n"), "old", ["gemm"])
        with self.assertRaisesRegex(compare.Failure, "printed no JSON"):
            compare.run(self.program("echo hello\n"), "old", ["gemm"])

    def test_errors_have_one_line_and_a_code(self):
        code, errors = quiet_main("no-such-commit", ".")
        self.assertEqual(code, 1)
        self.assertEqual(errors.count("\n"), 1, errors)
        self.assertIn("'no-such-commit' is not a commit", errors)
        self.assertEqual(quiet_main(".")[0], 2)
        self.assertEqual(quiet_main(".", ".", "--rounds", "1")[0], 2)
        self.assertEqual(quiet_main(".", ".", "--")[0], 2)


if __name__ == "__main__":
    unittest.main()
