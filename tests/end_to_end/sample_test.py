"""sample as a process: killed at any moment it goes on to the same file; linearize without text."""
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

PROGRAM = os.environ["DARKFORMER"]
KILLS = int(os.environ.get("DARKFORMER_KILLS", "6"))
MODEL = "models/gemma-tiny"


class Sample(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.scratch.name)
        self.environment = dict(os.environ, XDG_CACHE_HOME=str(self.root / "cache"), OMP_WAIT_POLICY="passive")

    def tearDown(self):
        self.scratch.cleanup()

    def run_program(self, *arguments):
        return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False, env=self.environment)

    def command(self, out, *more):
        return ["sample", MODEL, "--tokens", "12000", "--context", "48", "--out", str(self.root / out), *more]

    def signalled(self, out, seconds, number):
        """Whether it ended by itself, and what it said."""
        with subprocess.Popen([PROGRAM, *self.command(out, "--resume", "--quiet")], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, text=True, env=self.environment) as process:
            try:
                _, errors = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                process.send_signal(number)
                _, errors = process.communicate()
            return process.returncode == 0, errors

    def test_killed_and_resumed_it_is_the_same_file(self):
        start = time.monotonic()
        done = self.run_program(*self.command("whole.jsonl"))
        usual = time.monotonic() - start
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("12000 tokens", done.stdout)
        want = (self.root / "whole.jsonl").read_bytes()
        for line in want.splitlines():
            self.assertEqual(list(json.loads(line)), ["text"])

        alone = self.run_program(*self.command("alone.jsonl", "--batch", "5", "--threads", "1"))
        self.assertEqual(alone.returncode, 0, alone.stderr)
        self.assertTrue((self.root / "alone.jsonl").read_bytes() == want, "the batch changes the text")

        chance = random.Random(5)
        for kill in range(KILLS):
            number = signal.SIGINT if kill % 3 == 2 else signal.SIGKILL
            ended, errors = self.signalled("killed.jsonl", chance.uniform(0.2, 0.8) * usual, number)
            if (self.root / "killed.jsonl").exists():  # whole, even if the kill came a moment later
                self.assertTrue((self.root / "killed.jsonl").read_bytes() == want, "another text")
                break
            self.assertFalse(ended)
            if number == signal.SIGINT:
                self.assertEqual(errors.count("\n"), 1, errors)
                self.assertIn("stopped", errors)
        done = self.run_program(*self.command("killed.jsonl", "--resume"))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.root / "killed.jsonl").read_bytes() == want, "another text")
        self.assertFalse((self.root / "killed.jsonl.partial").exists())

    def test_ctrl_c_says_how_to_go_on(self):
        arguments = [PROGRAM, "sample", MODEL, "--tokens", "100000000", "--context", "16", "--out",
                     str(self.root / "long.jsonl"), "--quiet"]
        with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, env=self.environment) as process:
            gathered = self.root / "long.jsonl.partial" / "sequences.jsonl"
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and not (gathered.exists() and gathered.stat().st_size > 0):
                time.sleep(0.05)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1)
        self.assertIn("of 100000000 tokens; the same command with --resume goes on", errors)
        self.assertEqual(errors.count("\n"), 1, errors)

    def test_linearize_without_text(self):
        out = self.root / "linear"
        command = ["linearize", MODEL, "--out", str(out), "--context", "32", "--batch", "2", "--steps", "4",
                   "--own-tokens", "3000", "--eval-tokens", "200", "--analysis-tokens", "500"]
        done = self.run_program(*command)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("3000 tokens of the model's own text", done.stderr)
        self.assertTrue((out / "finetune" / "final" / "config.json").exists())
        self.assertTrue((out / "held-out.tokens").exists())
        stage = json.loads((out / "stages" / "sample.json").read_text())
        self.assertEqual(stage["tokens"], 3000)
        self.assertIn("darkformer sample", (out / "report.html").read_text(encoding="utf-8"))
        written = (out / "own-text.jsonl").stat().st_mtime_ns
        # A stage that was killed behind the finished file is noted, not sampled anew.
        (out / "stages" / "sample.json").unlink()
        again = self.run_program(*command)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual((out / "own-text.jsonl").stat().st_mtime_ns, written)


if __name__ == "__main__":
    unittest.main()
