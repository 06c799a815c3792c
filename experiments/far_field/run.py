#!/usr/bin/env python3
"""run.py PROGRAM OUT: which linear attention still copies over a distance of 128, and what does a window do to it?

A two-layer model with exact attention learns to copy 128 random tokens; converted (32 features) and finetuned for 300
steps, performer and dark (centred) are asked the same, dark also with a window of 16 beside it. Three seeds of draws and
data order. Writes OUT/results.json after each run and goes on from there; prints a table.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import sys
from pathlib import Path

from copy_task import CopyTask

SEEDS = (1, 2, 3)
CENTRED = ["--attention", "dark", "--centre", "--data", "{text}", "--context", "256"]
WINDOW = [*CENTRED, "--window", "16"]
KINDS = {
    "performer": ["--attention", "performer"],
    "dark": CENTRED,
    "dark, window 16, gate": WINDOW,
    "dark, window 16, one normaliser": [*WINDOW, "--no-gate"],
}


def main():
    task = CopyTask(sys.argv[1], sys.argv[2])
    task.prepare()
    file = Path(sys.argv[2]) / "results.json"
    results = json.loads(file.read_text()) if file.exists() else {"exact": {"-": task.accuracy(task.exact)}}
    for seed in map(str, SEEDS):
        for kind, convert in KINDS.items():
            if seed not in results.setdefault(kind, {}):
                convert = [str(task.text) if word == "{text}" else word for word in convert]
                results[kind][seed] = task.finetuned(kind.replace(", ", "-").replace(" ", "-"), convert, seed)
                file.with_suffix(".new").write_text(json.dumps(results, indent=1))
                file.with_suffix(".new").rename(file)
                print(kind, seed, results[kind][seed], flush=True)
    print(f"exact: {results['exact']['-']['full']:.3f}\n")
    print("| attention | component | " + " | ".join(f"seed {seed}" for seed in SEEDS) + " |\n|---|---|---|---|---|")
    for kind in KINDS:
        for part in results[kind]["1"]:
            print(f"| {kind} | {part} | " + " | ".join(f"{results[kind][str(s)][part]:.3f}" for s in SEEDS) + " |")


main()
