"""darkformer reproduce: a miniature of every figure; killed and called again it gives the same claims."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from browser import charts_of, check_page
from random_text import write_random_text

PROGRAM = os.environ["DARKFORMER"]
ROOT = Path(__file__).resolve().parent.parent.parent


class Reproduce(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = Path(cls.folder.name)
        write_random_text(cls.root / "text.txt")
        write_random_text(cls.root / "held-out.txt", seed=2, sentences=100)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def command(self, out, *figures):
        return [PROGRAM, "reproduce", *figures, "--scale", "miniature", "--seeds", "1", "--model", ROOT / "models/gemma-tiny",
                "--data", self.root / "text.txt", "--held-out", self.root / "held-out.txt", "--threads", "2",
                "--out", self.root / out, "--json"]

    def environment(self):
        return dict(os.environ, XDG_CACHE_HOME=str(self.root / "cache"))

    def run_to_the_end(self, out, *figures):
        done = subprocess.run(self.command(out, *figures), capture_output=True, text=True, check=False,
                              env=self.environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def test_every_figure_in_miniature(self):
        said = self.run_to_the_end("all")
        claims = json.loads((self.root / "all" / "claims.json").read_text())
        self.assertEqual(said["claims"], claims)
        figures = {path.parent.name for path in (ROOT / "experiments").glob("*/experiment.json")}
        self.assertEqual({claim["experiment"] for claim in claims}, figures)
        for claim in claims:
            if claim["experiment"] != "variance":
                # 16 features and 4096 tokens are not among the two grid values that a miniature tries.
                thinned = claim["name"] in ("few-against-many", "more-data")
                self.assertEqual(claim["verdict"] == "not measured", thinned, claim)
        results = json.loads((self.root / "all" / "results.json").read_text())
        self.assertEqual(len(results["sections"]), len(figures))
        for section in results["sections"]:
            for figure in section["figures"]:
                if figure["type"] == "lines":
                    self.assertTrue(figure["series"], (section["title"], figure["title"]))
        page = (self.root / "all" / "report.html").read_text()
        self.assertTrue("q, k, v only: dark is more accurate than performer" in page)
        for width in (1200, 500):
            seen = check_page(self, self.root / "all" / "report.html", charts_of(results), "darkformer reproduce", width)
            self.assertEqual(seen["statements"], len(results["statements"]))
        # Again: nothing is left to do, and the answer is the same.
        marks = {path: path.stat().st_mtime_ns for path in (self.root / "all" / "jobs").glob("*.json")}
        self.assertEqual(self.run_to_the_end("all")["claims"], claims)
        self.assertEqual({path: path.stat().st_mtime_ns for path in marks}, marks)

    def test_killed_and_called_again_it_gives_the_same(self):
        """reproduce is killed thrice, and called again: finished runs stay, weights and claims are those of one call"""
        figure = "qkv-only"
        start = time.monotonic()
        whole = self.run_to_the_end("whole", figure)
        usual = time.monotonic() - start
        kills = 0
        for share in (0.3, 0.5, 0.7):
            process = subprocess.Popen(self.command("killed", figure), stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL, env=self.environment())
            try:
                process.wait(timeout=share * usual)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                process.wait()
                kills += 1
        self.assertGreater(kills, 0)
        self.assertEqual(self.run_to_the_end("killed", figure)["claims"], whole["claims"])
        names = {path.name for path in (self.root / "whole" / "jobs").glob("*.json")}
        self.assertEqual({path.name for path in (self.root / "killed" / "jobs").glob("*.json")}, names)
        for name in sorted((self.root / "whole" / "runs").iterdir()):
            weights = Path("runs") / name.name / "final" / "model.safetensors"
            self.assertEqual((self.root / "killed" / weights).read_bytes(), (self.root / "whole" / weights).read_bytes())

    def test_a_report_is_of_what_is_there(self):
        """--report-only: with missing jobs, never with other options or other texts than those of the folder"""
        for name in ("text.txt", "held-out.txt"):
            (self.root / ("own-" + name)).write_bytes((self.root / name).read_bytes())
        command = self.command("partial", "covariance-data")
        command = [self.root / ("own-" + word.name) if isinstance(word, Path) and word.suffix == ".txt" else word for word in command]
        report = lambda *more: subprocess.run([*command, "--report-only", *more], capture_output=True, text=True, check=False,
                                              env=self.environment())
        self.assertIn("nothing was reproduced here", report().stderr)
        self.assertFalse((self.root / "partial").exists())
        self.assertEqual(subprocess.run(command, capture_output=True, check=False, env=self.environment()).returncode, 0)
        claims = (self.root / "partial" / "claims.json").read_text()
        both = report("variance", "qkv-only")  # of which nothing is done
        self.assertEqual(both.returncode, 0, both.stderr)
        self.assertIn('"not measured"', (self.root / "partial" / "claims.json").read_text())
        self.assertEqual(report().returncode, 0)
        self.assertEqual((self.root / "partial" / "claims.json").read_text(), claims)
        other = report("--quick")
        self.assertEqual((other.returncode, other.stderr.count("\n")), (2, 1), other.stderr)
        self.assertIn("quick = false, now true", other.stderr)
        with (self.root / "own-text.txt").open("a") as text:
            text.write("one more sentence\n")
        changed = report()
        self.assertEqual(changed.returncode, 1)
        self.assertIn("nothing is finished here", changed.stderr)
        self.assertEqual((self.root / "partial" / "claims.json").read_text(), claims)

    def test_mistakes_are_one_line(self):
        for words, said, code in ((["qkv-onyl"], "qkv-only", 2), (["--scale", "gemma-2b"], "--model", 2),
                                  (["--data", "nowhere.txt"], "nowhere.txt", 1)):
            done = subprocess.run([PROGRAM, "reproduce", *words, "--out", self.root / "wrong"], capture_output=True,
                                  text=True, check=False, cwd=self.root)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()
