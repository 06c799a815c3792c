"""The memory of training runs: as predicted, less with --recompute, refused where it cannot suffice, linear in the context."""
# SPDX-License-Identifier: Apache-2.0
import json
import math
import os
import pathlib
import resource
import subprocess
import tempfile
import unittest

from random_text import write_random_text

PROGRAM = os.environ["DARKFORMER"]
WITHIN = 0.2  # of the prediction


def cpu_seconds():
    """Of the processes that have ended, their own: the machine may be shared, and what its kernel takes for fresh pages goes with the memory,
    which has its own bounds, and not with the work."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime


class Memory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)
        cls.text = cls.root / "text.txt"
        write_random_text(cls.text, sentences=11000)
        cls.made = cls.train("base", "pretrain", "--vocabulary", "340", "--layers", "6", "--hidden", "256", "--heads", "4",
                             "--kv-heads", "1", "--head-dim", "64", "--context", "1024", "--batch", "4")
        cls.model = cls.root / "base" / "final"

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def call(cls, *words):
        done = subprocess.run([PROGRAM, *map(str, words), "--threads", "1", "--json"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1]) if done.stdout else {}

    @classmethod
    def train(cls, run, *words):
        steps = () if "--steps" in words else ("--steps", "2")
        return cls.call(*words, *steps, "--return-memory", "--data", cls.text, "--out", cls.root / run, "--cache", cls.root / "cache")

    def expect_as_predicted(self, result, name):
        ratio = result["peak_memory"] / result["predicted_memory"]
        print(f"{name}: peak {result['peak_memory'] >> 20} MiB, predicted {result['predicted_memory'] >> 20} MiB, {ratio:.2f}")
        self.assertLess(abs(ratio - 1), WITHIN, name)

    def test_peaks_are_as_predicted(self):
        self.expect_as_predicted(self.made, "pretrain")
        peaks = {}
        for name, words in {
                "attention": ("--train", "attention"),
                "attention, recompute": ("--train", "attention", "--recompute"),
                "all, recompute": ("--recompute",),
                "all, passes of one": ("--micro-batch", "1")}.items():
            result = self.train(name, "finetune", self.model, "--context", "1024", "--batch", "4", *words)
            self.expect_as_predicted(result, name)
            peaks[name] = result["peak_memory"]
        self.assertLess(peaks["attention, recompute"], 0.7 * peaks["attention"])

    def test_a_run_that_cannot_fit_is_refused(self):
        words = [PROGRAM, "finetune", self.model, "--data", self.text, "--out", self.root / "huge", "--batch", "1000000"]
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--recompute", done.stderr)
        self.assertIn("--ignore-memory", done.stderr)
        self.assertFalse((self.root / "huge").exists())

    def test_long_contexts_are_linear(self):
        self.train("narrow", "pretrain", "--tokenizer", self.model, "--layers", "2", "--hidden", "64", "--heads", "2",
                   "--head-dim", "32", "--attention", "dark", "--features", "32", "--context", "256", "--batch", "1")
        seconds = {4096: math.inf, 65536: math.inf}
        for attempt in range(5):  # a busy machine only adds to the least of them
            for context, steps in ((4096, 16), (65536, 1)):  # as many tokens
                began = cpu_seconds()
                result = self.train(f"long-{context}-{attempt}", "finetune", self.root / "narrow" / "final", "--train",
                                    "attention", "--context", context, "--batch", "1", "--held-out", "0", "--steps", steps)
                seconds[context] = min(seconds[context], cpu_seconds() - began)
                self.expect_as_predicted(result, f"context {context}")
            if seconds[65536] < 1.5 * seconds[4096]:
                break
        print("seconds of CPU time:", seconds)
        self.assertLess(seconds[65536] / seconds[4096], 1.5)

    def test_plan_says_the_same_as_the_run(self):
        plan = self.call("plan", self.model, "--context", "1024", "--batch", "4", "--gflops", "100")
        self.assertAlmostEqual(plan["memory"]["peak"] / self.made["predicted_memory"], 1, delta=0.05)
        self.assertTrue(plan["fits"])
        self.assertFalse(self.call("plan", "gemma-2b", "--memory", "16", "--gflops", "100")["fits"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
