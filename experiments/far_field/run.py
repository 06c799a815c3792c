#!/usr/bin/env python3
"""run.py PROGRAM OUT [small|trained]: which linear attention still copies over a distance of 128, and what does a window do to it?

A two-layer model with exact attention learns to copy 128 random tokens; converted and finetuned, performer and dark
(centred, M at five times the learning rate) are asked the same, dark also with a window of 16 beside it. Three seeds of
draws and data order, a run on each core. The settings are in copy_task.py: small (the default), and trained, whose exact
model is larger and trained longer, and which is measured on its way too. Writes OUT/results.json after each run and goes on from there; prints a table.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from copy_task import SMALL, TRAINED, CopyTask

SEEDS = (1, 2, 3)
CENTRED = ["--attention", "dark", "--centre", "--data", "{text}", "--context", "256"]
RANK = [*CENTRED, "--rank", "16"]
KINDS = {
    "small": {
        "performer": ["--attention", "performer"],
        "dark": CENTRED,
        "dark, window 16, gate": [*CENTRED, "--window", "16"],
        "dark, window 16, one normaliser": [*CENTRED, "--window", "16", "--no-gate"],
    },
    "trained": {
        "performer": ["--attention", "performer"],
        "dark": CENTRED,
        "dark, window 16, gate": [*CENTRED, "--window", "16"],
        "dark, rank 16": RANK,
        "dark, rank 16, window 16, gate": [*RANK, "--window", "16"],
    },
}


class Results:
    """Accuracies by kind and seed, in a file that is whole after each run."""

    def __init__(self, file):
        self.file, self.lock = file, threading.Lock()
        self.found = json.loads(file.read_text()) if file.exists() else {}

    def get(self, kind, seed):
        return self.found.get(kind, {}).get(seed)

    def put(self, kind, seed, parts):
        with self.lock:
            self.found.setdefault(kind, {})[seed] = parts
            self.file.with_suffix(".new").write_text(json.dumps(self.found, indent=1))
            self.file.with_suffix(".new").rename(self.file)
            print(kind, seed, parts, flush=True)


def measure(task, results, kind, convert, seed):
    if results.get(kind, seed) is None:
        convert = [str(task.text) if word == "{text}" else word for word in convert]
        name = kind.replace(", ", "-").replace(" ", "-")
        results.put(kind, seed, {"components": task.finetuned(name, convert, seed), "steps": task.curve(name, seed)})


def components(results, kinds):
    lines = ["| attention | component | " + " | ".join(f"seed {seed}" for seed in SEEDS) + " |", "|---|---|---|---|---|"]
    for kind in kinds:
        for part in results.get(kind, "1")["components"]:
            cells = " | ".join(f"{results.get(kind, str(seed))['components'][part]:.3f}" for seed in SEEDS)
            lines.append(f"| {kind} | {part} | {cells} |")
    return "\n".join(lines)


def curves(results, kinds):
    """Means over the seeds, with the least and the most, after each number of steps."""
    lines = ["| steps | " + " | ".join(kinds) + " |", "|---" * (len(kinds) + 1) + "|"]
    for steps in results.get("performer", "1")["steps"]:
        row = []
        for kind in kinds:
            values = [results.get(kind, str(seed))["steps"][steps] for seed in SEEDS]
            row.append(f"{sum(values) / len(values):.3f} ({min(values):.3f}–{max(values):.3f})")
        lines.append(f"| {steps} | " + " | ".join(row) + " |")
    return "\n".join(lines)


def main():
    setting = sys.argv[3] if len(sys.argv) > 3 else "small"
    if len(sys.argv) < 3 or setting not in KINDS:
        sys.exit(__doc__)
    task = CopyTask(sys.argv[1], sys.argv[2], {"small": SMALL, "trained": TRAINED}[setting])
    task.prepare()
    results = Results(Path(sys.argv[2]) / "results.json")
    if results.get("exact", "-") is None:
        results.put("exact", "-", {"components": task.accuracy(task.exact)})
    with ThreadPoolExecutor(os.cpu_count()) as cores:
        for done in [cores.submit(measure, task, results, kind, convert, str(seed)) for seed in SEEDS
                     for kind, convert in KINDS[setting].items()]:
            done.result()
    results = Results(results.file)  # as it stands in the file, with keys that are text
    print(f"exact: {results.get('exact', '-')['components']['full']:.3f}\n")
    print(components(results, KINDS[setting]) + "\n\n" + curves(results, KINDS[setting]))


main()
