#!/usr/bin/env python3
"""run.py PROGRAM OUT [small|wide|trained [SEED...]]: which linear attention still copies over a distance of 128, and what does a window do to it?

A two-layer model with exact attention learns to copy 128 random tokens; converted and finetuned, performer and dark
(centred, M at five times the learning rate) are asked the same, dark also with a window of 16 beside it. Seeds 1, 2 and 3 of
draws and data order unless others are named, a run on each core. The settings are in copy_task.py: small (the default); wide, whose exact
model is larger and trained longer; and trained, still longer. The last two are measured on their way too. Writes OUT/results.json after each run and goes on from there; prints a table.
"""
# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "shared"))
from copy_task import SMALL, TRAINED, WIDE, CopyTask  # noqa: E402
from results import Results, mean_and_range  # noqa: E402

SEEDS = ("1", "2", "3")
CENTRED = ["--attention", "dark", "--centre", "--data", "{text}", "--context", "256"]
RANK = [*CENTRED, "--rank", "16", "--init", "identity"]
SHARE = [*CENTRED, "--rank-share", "0.9"]
WINDOW = ["--window", "16", "--near", "factor"]  # as measured in docs/window.md
KINDS = {
    "small": {
        "performer": ["--attention", "performer"],
        "dark": CENTRED,
        "dark, window 16, gate": [*CENTRED, *WINDOW],
        "dark, window 16, one normaliser": [*CENTRED, *WINDOW, "--no-gate"],
    },
    "wide": {
        "performer": ["--attention", "performer"],
        "dark, rank share 0.9": SHARE,
        "dark, rank share 0.9, window 16, gate": [*SHARE, *WINDOW],
    },
    "trained": {
        "performer": ["--attention", "performer"],
        "dark": CENTRED,
        "dark, window 16, gate": [*CENTRED, *WINDOW],
        "dark, rank 16": RANK,
        "dark, rank 16, window 16, gate": [*RANK, *WINDOW],
        "dark, rank share 0.9": SHARE,
        "dark, rank share 0.9, window 16, gate": [*SHARE, *WINDOW],
    },
}


def components(results, kinds, seeds):
    lines = ["| attention | component | " + " | ".join(f"seed {seed}" for seed in seeds) + " |", "|---|---|" + "---|" * len(seeds)]
    for kind in kinds:
        for part in results.get(kind, seeds[0])["components"]:
            cells = " | ".join(f"{results.get(kind, seed)['components'][part]:.3f}" for seed in seeds)
            lines.append(f"| {kind} | {part} | {cells} |")
    return "\n".join(lines)


def curves(results, kinds, seeds):
    """Means over the seeds, with the least and the most, after each number of steps."""
    lines = ["| steps | " + " | ".join(kinds) + " |", "|---" * (len(kinds) + 1) + "|"]
    for steps in results.get("performer", seeds[0])["steps"]:
        row = [mean_and_range([results.get(kind, seed)["steps"][steps] for seed in seeds]) for kind in kinds]
        lines.append(f"| {steps} | " + " | ".join(row) + " |")
    return "\n".join(lines)


def main():
    setting = sys.argv[3] if len(sys.argv) > 3 else "small"
    if len(sys.argv) < 3 or setting not in KINDS:
        sys.exit(__doc__)
    seeds = sys.argv[4:] or SEEDS
    task = CopyTask(sys.argv[1], sys.argv[2], {"small": SMALL, "wide": WIDE, "trained": TRAINED}[setting])
    task.prepare()
    results, kinds = Results(Path(sys.argv[2]) / "results.json"), KINDS[setting]
    if results.get("exact", "-") is None:
        results.put("exact", "-", {"components": task.accuracy(task.exact)})

    def measure(kind, seed):
        convert = [str(task.text) if word == "{text}" else word for word in kinds[kind]]
        return {"components": task.finetuned(kind, convert, seed), "steps": task.curve(kind, seed)}

    results.fill(kinds, seeds, measure)
    print(f"exact: {results.get('exact', '-')['components']['full']:.3f}\n")
    print(components(results, kinds, seeds) + "\n\n" + curves(results, kinds, seeds))


main()
