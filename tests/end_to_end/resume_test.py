"""Runs that are killed at any moment and resumed end with the same bits as one that was left alone."""
import json
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import time
import unittest

from random_text import write_random_text

PROGRAM = os.environ["DARKFORMER"]
KILLS = int(os.environ.get("DARKFORMER_KILLS", "20"))
STEPS = 24


def files_of(run):
    """The files that must not depend on kills, and the log without clock and memory."""
    last = f"checkpoints/step-{STEPS}"
    names = ["final/model.safetensors", "final/config.json", "final/tokenizer.model",
             f"{last}/model.safetensors", f"{last}/optimizer.safetensors", f"{last}/training_state.json"]
    content = {name: (run / name).read_bytes() for name in names}
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    for line in lines:
        del line["tokens_per_second"], line["memory"]
    return content, lines


class Resume(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)
        cls.text = cls.root / "text.txt"
        write_random_text(cls.text)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def command(self, run, *more):
        return [PROGRAM, "pretrain", "--data", self.text, "--out", run, "--cache", self.root / "cache",
                "--vocabulary", "340", "--layers", "2", "--hidden", "32", "--heads", "2", "--head-dim", "16",
                "--attention", "dark", "--features", "16", "--redraw", "5", "--context", "48", "--batch", "4",
                "--micro-batch", "3", "--lr", "3e-3", "--factor-lr-scale", "2", "--warmup", "4",
                "--steps", str(STEPS), "--checkpoint-every", "2", "--eval-every", "3", "--held-out", "0.1",
                "--threads", "2", "--quiet", *more]

    def run_to_the_end(self, run, *more):
        done = subprocess.run(self.command(run, *more), capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def start_and_kill(self, run, seconds, number):
        """True if the signal came before the end."""
        process = subprocess.Popen(self.command(run, "--resume"), stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True)
        try:
            _, errors = process.communicate(timeout=seconds)
            self.assertEqual(process.returncode, 0, errors)
            return False
        except subprocess.TimeoutExpired:
            process.send_signal(number)
            _, errors = process.communicate()
            if number == signal.SIGINT and process.returncode == 1:
                self.assertIn("--resume", errors)
            return process.returncode != 0

    def test_killed_runs_end_with_the_same_bits(self):
        """training killed at random moments and resumed: the same bits as a run left alone"""
        start = time.monotonic()
        self.run_to_the_end(self.root / "whole")
        usual = time.monotonic() - start
        want = files_of(self.root / "whole")
        self.assertEqual(len(want[1]), STEPS)
        chance = random.Random(2)
        kills, runs = 0, 0
        while kills < KILLS:
            runs += 1
            run = self.root / f"killed-{runs}"
            while kills < KILLS and self.start_and_kill(run, chance.uniform(0.02, 0.8) * usual, signal.SIGKILL):
                kills += 1
            self.run_to_the_end(run, "--resume")
            got = files_of(run)
            for name, content in want[0].items():
                self.assertTrue(got[0][name] == content, f"{run}: {name} after {kills} kills")
            self.assertEqual(got[1], want[1])

    def test_ctrl_c_saves_and_says_how_to_go_on(self):
        run = self.root / "stopped"
        process = subprocess.Popen(self.command(run), stderr=subprocess.PIPE, text=True)
        while not (run / "log.jsonl").exists() and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
        if process.returncode == 0:
            self.skipTest("the run was over before the signal came")
        self.assertEqual(process.returncode, 1, errors)
        self.assertEqual(errors.count("\n"), 1, errors)
        command = errors[errors.index("go on with: darkformer ") + len("go on with: darkformer "):].split()
        done = subprocess.run([PROGRAM, *command], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((run / "final" / "model.safetensors").exists())

    def test_what_cannot_go_on_is_refused(self):
        run = self.root / "damaged"
        self.run_to_the_end(run)
        def resumed(*more):
            words = [str(word) for word in self.command(run, "--resume")]
            for name, value in zip(more[::2], more[1::2]):
                words[words.index(name) + 1] = value
            return subprocess.run(words, capture_output=True, text=True, check=False)

        done = resumed("--steps", str(STEPS - 1))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(f"has done {STEPS} steps already", done.stderr)
        for weights in run.glob("checkpoints/step-*/model.safetensors"):
            weights.write_bytes(weights.read_bytes()[:-1])
        kept = sorted(run.rglob("*"))
        done = resumed()
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("every checkpoint is damaged", done.stderr)
        self.assertEqual(sorted(run.rglob("*")), kept)

    def test_finetune_and_eval_go_on_from_a_pretrained_model(self):
        self.run_to_the_end(self.root / "base")
        base, tuned = self.root / "base" / "final", self.root / "tuned"
        done = subprocess.run(
            [PROGRAM, "finetune", base, "--data", self.text, "--out", tuned, "--train", "attention", "--steps", "5",
             "--context", "48", "--cache", self.root / "cache", "--teacher", base, "--tensorboard", "--json"],
            capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout.splitlines()[-1])["steps"], 5)
        again = subprocess.run([PROGRAM, "finetune", base, "--data", self.text, "--out", tuned],
                               capture_output=True, text=True, check=False)
        self.assertEqual(again.returncode, 2)
        self.assertIn("--resume", again.stderr)
        done = subprocess.run(
            [PROGRAM, "eval", tuned / "final", "--data", self.text, "--context", "48", "--against", base, "--json",
             "--cache", self.root / "cache"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        result = json.loads(done.stdout.splitlines()[-1])
        self.assertGreater(result["tokens"], 1000)
        self.assertGreater(result["agreement"], 0.5)
        self.assertGreater(result["kl"], 0)


if __name__ == "__main__":
    unittest.main()
