#!/usr/bin/env python3
"""A pretrained model that somebody else trained, converted by every kind of attention, fitted, trained and measured.

run.py PROGRAM MODEL TRAIN.txt HELD-OUT.txt WORK [--seeds 1 2 3] [--tokens 0 200000] [--rows NAME ...]

Writes WORK/results.jsonl, a line for each measurement, and prints the table of README.md. What is measured already is not
done again, so the command goes on after a stop.
"""
# SPDX-License-Identifier: Apache-2.0
import argparse
import json
import shutil
import statistics
import subprocess
from pathlib import Path

BATCH, CONTEXT = 8, 256
# Options, tokens of training (0: the fit alone) and the rate, which was chosen on seed 9 (README.md).
ROWS = {
    "linear, 48 features": (["--features", 48], (0,), "5e-4"),
    "linear, 96 features": (["--features", 96], (0, 200_000, 2_000_000), "5e-4"),
    "window 16, 48 features": (["--features", 48, "--window", 16], (0,), "2e-4"),
    "window 16, 96 features": (["--features", 96, "--window", 16], (0, 200_000), "2e-4"),
    "window 32, 96 features": (["--features", 96, "--window", 32], (0, 2_000_000), "2e-4"),
}
KINDS = ("dark", "hedgehog", "lfk", "performer")


def exact_row(rate):
    """What a row is compared with: exact attention after the same training."""
    return f"exact, rate {rate}"


class Experiment:
    def __init__(self, arguments):
        self.a = arguments
        self.work = Path(arguments.work)
        self.work.mkdir(parents=True, exist_ok=True)
        self.log = self.work / "results.jsonl"
        self.done = {}
        if self.log.exists():
            for line in self.log.read_text().splitlines():
                record = json.loads(line)
                self.done[self.key(record)] = record

    @staticmethod
    def key(record):
        return record["row"], record["kind"], record["tokens"], record["seed"]

    def run(self, *words):
        done = subprocess.run([self.a.program, *map(str, words), "--quiet"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(map(str, words))}: {done.stderr}")
        return done.stdout

    def evaluate(self, folder):
        out = self.run("eval", folder, "--data", self.a.held_out, "--context", CONTEXT, "--against", self.a.model,
                       "--no-attribution", "--json")
        result = json.loads(out.splitlines()[-1])
        return {name: result[name] for name in ("accuracy", "agreement", "kl", "loss")}

    def keep(self, record):
        self.done[self.key(record)] = record
        with self.log.open("a") as log:
            log.write(json.dumps(record) + "\n")
        print(json.dumps(record), flush=True)

    def train(self, folder, tokens, seed, rate):
        steps = max(1, tokens // (BATCH * CONTEXT))
        run = folder.with_name(f"{folder.name}-{tokens}")
        self.run("finetune", folder, "--data", self.a.train, "--train", "attention", "--lr", rate, "--steps", steps, "--batch", BATCH, "--context",
                 CONTEXT, "--warmup", max(1, steps // 10), "--seed", seed, "--checkpoint-every", 200, "--keep", 1, "--resume", "--out", run)
        return run / "final"

    def measure(self, row, kind, options, tokens, rate, seed):
        """The converted model after so many tokens, and the bytes of its state."""
        name = f"{row}-{kind}-{seed}".replace(" ", "").replace(",", "-")
        wanted = [t for t in tokens if t in self.a.tokens and (row, kind, t, seed) not in self.done]
        folder, size = self.work / name, {}
        if wanted and kind != "exact":
            if not (folder / "config.json").exists():
                self.run("convert", self.a.model, "--attention", kind, *options, "--data", self.a.train, "--seed", seed, "--out", folder)
            size = {"state": json.loads(self.run("info", folder, "--json").splitlines()[-1])["state_bytes_constant"]}
        for count in wanted:
            source = Path(self.a.model) if kind == "exact" else folder
            if count and kind == "exact":
                shutil.copytree(source, folder, dirs_exist_ok=True)
                source = folder
            model = self.train(source, count, seed, rate) if count else source
            self.keep({"row": row, "kind": kind, "tokens": count, "seed": seed, **size, **self.evaluate(model)})

    def all(self):
        for seed in self.a.seeds:
            for row, (options, tokens, rate) in ROWS.items():
                if self.a.rows and row not in self.a.rows:
                    continue
                self.measure(exact_row(rate), "exact", [], tokens, rate, seed)
                for kind in self.a.kinds:
                    if kind != "window":
                        self.measure(row, kind, options, tokens, rate, seed)
                    elif "--window" in options:
                        self.measure(row, kind, options[options.index("--window"):], tokens, rate, seed)

    def table(self):
        """Means over seeds with least and most, and the share of exact attention after the same training."""
        print("\n| setting | attention | tokens | accuracy | of exact | agreement | KL | state |\n|---|---|---|---|---|---|---|---|")
        groups = {}
        for row, kind, tokens, seed in self.done:
            groups.setdefault((row, kind, tokens), []).append(self.done[row, kind, tokens, seed])
        for (row, kind, tokens), records in groups.items():
            rival = row if kind == "exact" else exact_row(ROWS[row][2])
            exact = [r["accuracy"] for r in groups.get((rival, "exact", tokens), [])]
            values = [r["accuracy"] for r in records]
            share = f"{100 * statistics.mean(values) / statistics.mean(exact):.1f} %" if exact else "–"
            means = [statistics.mean(r[name] for r in records) for name in ("agreement", "kl")]
            print(f"| {row} | {kind} | {tokens} | {statistics.mean(values):.4f} ({min(values):.4f}–{max(values):.4f}) | {share} "
                  f"| {means[0]:.4f} | {means[1]:.4f} | {records[0].get('state', '–')} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("program", "model", "train", "held_out", "work"):
        parser.add_argument(name)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--tokens", type=int, nargs="+", default=[0, 200_000, 2_000_000])
    parser.add_argument("--rows", nargs="+", choices=ROWS)
    parser.add_argument("--kinds", nargs="+", default=[*KINDS, "window"])
    experiment = Experiment(parser.parse_args())
    experiment.all()
    experiment.table()


if __name__ == "__main__":
    main()
