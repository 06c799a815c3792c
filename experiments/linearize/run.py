#!/usr/bin/env python3
"""run.py PROGRAM OUT [KIND...]: how much of performer's gap does dark attention close, and how much does a window keep?

`linearize` of the embedded model (`make text` first) under the same settings and tokens for every kind: performer, dark (centred, its
factor at five times the learning rate), and dark with windows of 16 and 32; 32 features, the head size. Goes on after a stop; prints a table.
"""
# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "shared"))
from copy_task import run  # noqa: E402

SETTINGS = ["--data", "build/text/speeches.jsonl", "--eval-data", "build/text/speeches-held-out.jsonl", "--no-analyze",
            "--no-fit", "--train", "all", "--factor-lr-scale", "5",
            "--steps", "1000", "--context", "256", "--lr", "1e-3", "--checkpoint-every", "250"]
KINDS = {
    "performer": ["--attention", "performer", "--no-centre", "--window", "0"],
    "dark": ["--window", "0"],
    "dark, window 16": ["--window", "16"],
    "dark, window 32": ["--window", "32"],
}


def main():
    program, out = sys.argv[1], Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    wanted = sys.argv[3:] or KINDS
    results = {}
    for kind in wanted:
        folder = out / kind.replace(", ", "-").replace(" ", "-")
        results[kind] = run(program, "linearize", "models/gemma-tiny", *SETTINGS, *KINDS[kind], "--out", folder)
        print(kind, {name: round(results[kind][name]["accuracy"], 4) for name in ("base", "converted", "finetuned")}, flush=True)
    print(f"\n{results[kind]['tokens']} tokens\n\n| attention | converted | finetuned | of the original |\n|---|---|---|---|")
    for kind, result in results.items():
        accuracy = result["finetuned"]["accuracy"]
        print(f"| {kind} | {result['converted']['accuracy']:.4f} | {accuracy:.4f} | {accuracy / result['base']['accuracy']:.1%} |")
    if "performer" in results and "dark" in results:
        base, performer, dark = (results[kind][name]["accuracy"]
                                 for kind, name in (("dark", "base"), ("performer", "finetuned"), ("dark", "finetuned")))
        print(f"\noriginal: {base:.4f}; dark closes {(dark - performer) / (base - performer):.1%} of performer's gap")


main()
