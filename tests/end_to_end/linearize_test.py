"""linearize: the whole way, killed at any moment and called again, ends with the same model and the same numbers."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import time
import unittest

from browser import charts_of, check_page

PROGRAM = os.environ["DARKFORMER"]
KILLS = int(os.environ.get("DARKFORMER_KILLS", "6"))
MODEL = "models/gemma-tiny"


def write_text(file):
    """The project's own pages: English enough, and in the tree."""
    pages = sorted(pathlib.Path("docs").glob("*.md"))
    with open(file, "w", encoding="utf-8") as out:
        for page in pages:
            out.write(json.dumps({"text": page.read_text(encoding="utf-8")[:6000]}) + "\n")


def results_of(folder):
    """What must not depend on kills: the model's bytes, and the numbers."""
    evals = {name: json.loads((folder / "stages" / f"eval-{name}.json").read_text())
             for name in ("original", "converted", "finetuned")}
    return (folder / "finetune" / "final" / "model.safetensors").read_bytes(), evals


class Linearize(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.scratch.name)
        self.text = self.root / "text.jsonl"
        write_text(self.text)

    def tearDown(self):
        self.scratch.cleanup()

    def command(self, out, *more):
        return [PROGRAM, "linearize", MODEL, "--data", self.text, "--out", self.root / out, "--context", "64",
                "--batch", "4", "--steps", "12", "--transfer-steps", "4", "--checkpoint-every", "2", "--lr", "1e-3",
                "--eval-tokens", "2000", "--analysis-tokens", "1000", "--fit-steps", "4", "--threads", "1", *more]

    def call(self, out, *more):
        environment = dict(os.environ, XDG_CACHE_HOME=str(self.root / "cache"), OMP_WAIT_POLICY="passive")
        return subprocess.run(self.command(out, *more), capture_output=True, text=True, check=False, env=environment)

    def start_and_signal(self, out, seconds, number):
        """The finished process, or None if the signal came first."""
        environment = dict(os.environ, XDG_CACHE_HOME=str(self.root / "cache"), OMP_WAIT_POLICY="passive")
        process = subprocess.Popen([*self.command(out), "--quiet"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                   text=True, env=environment)
        try:
            process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(number)
            _, errors = process.communicate()
            if number == signal.SIGINT and process.returncode == 1:
                self.assertIn("the same command goes on", errors)
                self.assertEqual(errors.count("\n"), 1, errors)
            return process.returncode == 0
        return True

    def test_killed_and_called_again_it_ends_the_same(self):
        """linearize killed at random moments and called again: the same model and the same numbers"""
        start = time.monotonic()
        done = self.call("whole", "--json")
        usual = time.monotonic() - start
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout.splitlines()[-1])
        self.assertTrue(pathlib.Path(result["model"], "config.json").exists())
        names = [part["component"] for part in result["finetuned"]["attribution"]]
        self.assertEqual(names, ["full", "window only", "linear only", "constant far field", "base"])
        page = pathlib.Path(result["report"]).read_text(encoding="utf-8")
        for words in ("Before and after", "What does the work", "Loss by position", "How far each head is", "darkformer finetune"):
            self.assertIn(words, page)
        results = json.loads((self.root / "whole" / "results.json").read_text())
        for width in (1200, 500):
            check_page(self, pathlib.Path(result["report"]), charts_of(results), "darkformer linearize", width)

        want = results_of(self.root / "whole")
        chance = random.Random(3)
        for kill in range(KILLS):
            number = signal.SIGINT if kill % 3 == 2 else signal.SIGKILL
            if self.start_and_signal("killed", chance.uniform(0.1, 0.7) * usual, number):
                break
        done = self.call("killed")
        self.assertEqual(done.returncode, 0, done.stderr)
        got = results_of(self.root / "killed")
        self.assertTrue(got[0] == want[0], "another model")
        self.assertEqual(got[1], want[1])

        again = self.call("killed")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(again.stdout, done.stdout)

        other = self.call("killed", "--window", "0")
        self.assertEqual(other.returncode, 2)
        self.assertEqual(other.stderr.count("\n"), 1, other.stderr)
        self.assertIn("window = 16, now 0", other.stderr)

    def test_what_cannot_be_is_refused_at_once(self):
        for options in (["--keep-exact", "99"], ["--keep-exact", "all"], ["--features", "20000000"], ["--budget", "90000", "--features", "16"], ["--budget", "90000", "--no-analyze"],
                        ["--rank-share", "0"], ["--rank-share", "0.9", "--budget", "90000"], ["--rank-share", "0.9", "--attention", "performer"]):
            done = self.call("impossible", *options)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertFalse((self.root / "impossible").exists())
        done = self.call("impossible", "--eval-data", self.root / "missing.jsonl")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("missing.jsonl: cannot be opened", done.stderr)
        self.assertFalse((self.root / "impossible").exists())


if __name__ == "__main__":
    unittest.main()
