#!/usr/bin/env python3
"""run.py PROGRAM OUT: does a covariance of lower rank serve on text?

The embedded model (`make text` first; heads of size 32) with dark attention of full rank, of the rank that holds nine tenths of the variance
in each layer, and of rank 16, each without a window and with one of 16; three seeds of draws and data order, a run on each core. Writes
OUT/results.json after each run and goes on from there; prints a table of means, with the least and the most.
"""
# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "shared"))
import text_task  # noqa: E402
from results import Results, folder_name, mean_and_range  # noqa: E402

SEEDS = ("1", "2", "3")
RANKS = {"full rank": [], "rank share 0.9": ["--rank-share", "0.9"], "rank 16": ["--rank", "16"]}
WINDOW = ["--window", "16", "--near", "factor"]  # as measured in docs/convert.md
KINDS = {rank + window: RANKS[rank] + options for window, options in (("", []), (", window 16", WINDOW)) for rank in RANKS}
MEASURES = ("zero_shot", "accuracy", "loss")


def table(results):
    lines = ["| covariance | zero-shot | finetuned | loss |", "|---|---|---|---|"]
    for kind in KINDS:
        cells = [mean_and_range([results.get(kind, seed)[measure] for seed in SEEDS]) for measure in MEASURES]
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    program, out = sys.argv[1], Path(sys.argv[2])
    results = Results(out / "results.json")
    results.fill(KINDS, SEEDS, lambda kind, seed: text_task.finetuned(program, out / folder_name(kind, seed), KINDS[kind], seed))
    print(table(results))


main()
