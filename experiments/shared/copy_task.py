"""The copy task: 128 random symbols, then the same 128 again; a small exact model that solves it, and how others are made of it.

The exact model first learns on short documents that repeat 8 to 24 symbols, so that it looks for a symbol and not for a place, then on
the task itself; those made of it are finetuned and measured on the task."""
# SPDX-License-Identifier: Apache-2.0
import json
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from results import folder_name

DISTANCE = 128
SYMBOLS = [chr(0x4E00 + i) for i in range(256)]  # a character and the space before it become one token
PIECES = 273 + 2 * len(SYMBOLS) + 1  # specials, white space and bytes; symbols with a space and without; the space
CONTEXT = 2 * DISTANCE + 2  # BOS, the document, EOS: a window is a document
MODEL = ["--layers", "2", "--heads", "4", "--kv-heads", "4", "--head-dim", "32", "--vocabulary", PIECES, "--init-deviation", "0.1"]
SHORT = 64  # symbols of a document that repeats itself
TRAINING = ["--warmup", "20", "--eval-windows", "1"]
SHORT_WINDOWS, WINDOWS = ["--context", SHORT + 2, "--batch", "32"], ["--context", CONTEXT, "--batch", "16"]
PRETRAINING_RATE, SHORT_STEPS = "3e-3", 500


@dataclass(frozen=True)
class Setting:
    """The exact model, and how what is made of it is finetuned."""
    hidden: int
    intermediate: int
    long_steps: int  # of the exact model on the task, after SHORT_STEPS on short documents
    features: int
    rate: str
    schedule: str
    steps: int
    every: int  # steps between the checkpoints that are measured


SMALL = Setting(hidden=64, intermediate=128, long_steps=150, features=32, rate="3e-3", schedule="cosine", steps=300, every=300)
WIDE = Setting(hidden=128, intermediate=512, long_steps=300, features=192, rate="1e-3", schedule="constant", steps=120, every=15)
TRAINED = Setting(hidden=128, intermediate=512, long_steps=800, features=128, rate="1e-3", schedule="constant", steps=200,
                  every=25)


def run(program, *arguments):
    """The JSON result of a command; ends the experiment if it fails."""
    command = [program, *map(str, arguments), "--quiet", "--json", "--threads", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def write_documents(file, count, seed, size, periods):
    """Documents of `size` symbols: some different ones, as many as one of the periods, over and over."""
    chance = random.Random(seed)
    with open(file, "w", encoding="utf-8") as out:
        for _ in range(count):
            symbols = chance.sample(SYMBOLS, chance.choice(periods))
            out.write(json.dumps({"text": "".join(" " + symbols[i % len(symbols)] for i in range(size))}) + "\n")


class CopyTask:
    """Data and the exact model in a folder; made once."""

    def __init__(self, program, folder, setting=SMALL):
        self.program, self.folder, self.setting = program, Path(folder), setting
        self.folder.mkdir(parents=True, exist_ok=True)
        self.short, self.text, self.held_out = (self.folder / f"{name}.jsonl" for name in ("short", "copy", "held-out"))
        self.exact = self.folder / "exact" / "final"

    def prepare(self):
        if not self.held_out.exists():
            write_documents(self.short, 20000, 1, SHORT, range(8, 25))
            write_documents(self.text, 5000, 2, 2 * DISTANCE, [DISTANCE])
            write_documents(self.held_out, 64, 3, 2 * DISTANCE, [DISTANCE])
        if not self.exact.exists():
            short = self.folder / "exact-short"
            run(self.program, "pretrain", "--data", self.short, *MODEL, "--hidden", self.setting.hidden, "--intermediate",
                self.setting.intermediate, "--lr", PRETRAINING_RATE, *TRAINING, *SHORT_WINDOWS, "--steps", SHORT_STEPS, "--out", short,
                "--resume")
            run(self.program, "finetune", short / "final", "--data", self.text, "--lr", PRETRAINING_RATE, *TRAINING, *WINDOWS, "--steps",
                self.setting.long_steps, "--out", self.exact.parent, "--resume")

    def accuracy(self, model):
        """How much of the second half is right: the probe of `darkformer eval`, whose tokens are the task's."""
        result = run(self.program, "eval", model, "--data", self.held_out, "--context", 2 * DISTANCE, "--probe", DISTANCE)
        return {part["component"]: part["probe"][0]["accuracy"] for part in result["attribution"]}

    def finetuned(self, name, convert, seed, finetune=(), rate=None):
        """Accuracies of the exact model converted and finetuned, by component."""
        tuned = self.folder / folder_name(name, seed)
        start = tuned.with_name(tuned.name + "-start")
        if not start.exists():
            run(self.program, "convert", "--no-fit", self.exact, *convert, "--features", self.setting.features, "--seed", seed, "--out", start)
        run(self.program, "finetune", start, "--data", self.text, "--lr", rate or self.setting.rate, "--schedule", self.setting.schedule,
            *TRAINING, *WINDOWS, "--steps", self.setting.steps, "--checkpoint-every", self.setting.every, "--keep", self.setting.steps,
            "--factor-lr-scale", 5, *finetune, "--seed", seed, "--out", tuned, "--resume")
        return self.accuracy(tuned / "final")

    def curve(self, name, seed):
        """Accuracy after each number of steps that is measured, of a model that `finetuned` made."""
        checkpoints = self.folder / folder_name(name, seed) / "checkpoints"
        return {steps: self.accuracy(checkpoints / f"step-{steps}")["full"]
                for steps in range(self.setting.every, self.setting.steps + 1, self.setting.every)}
