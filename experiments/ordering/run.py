#!/usr/bin/env python3
"""run.py PROGRAM OUT: is exact better than dark better than performer, after the same finetuning?

Converts the embedded model to each kind with as many features as the head size, finetunes all of the model or
only its attention for the same steps on the same text, and measures on held-out speeches; three seeds of draws and
data order. Writes OUT/results.json after each run and goes on from there; prints a table.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import subprocess
import sys
from pathlib import Path

PROGRAM, OUT = sys.argv[1], Path(sys.argv[2])
MODEL = "models/gemma-tiny"
TEXT, HELD_OUT = "build/text/speeches.jsonl", "build/text/speeches-held-out.jsonl"
SEEDS = (1, 2, 3)
SETTINGS = ["--steps", "150", "--context", "256", "--batch", "8", "--lr", "2e-3", "--warmup", "20",
            "--factor-lr-scale", "5", "--checkpoint-every", "150", "--eval-windows", "1"]
CENTRE = ["--centre", "--data", TEXT]
KINDS = {
    "exact": None,
    "dark, centred": ["--attention", "dark", *CENTRE],
    "dark": ["--attention", "dark"],
    "performer, centred": ["--attention", "performer", *CENTRE],
    "performer": ["--attention", "performer"],
}


def run(*arguments):
    done = subprocess.run([PROGRAM, *map(str, arguments), "--quiet", "--json"], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))}: {done.stderr.strip()}")
    return json.loads(done.stdout.splitlines()[-1])


def finetuned(kind, train, seed):
    name = f"{kind.replace(', ', '-')}-{train}-{seed}"
    model, folder = MODEL, OUT / name
    if KINDS[kind]:
        model = OUT / f"{name}-start"
        if not model.exists():
            run("convert", "--no-fit", MODEL, *KINDS[kind], "--seed", seed, "--out", model)
    resume = ["--resume"] if folder.exists() else []
    run("finetune", model, "--data", TEXT, "--train", train, *SETTINGS, "--seed", seed, "--out", folder, *resume)
    measured = run("eval", folder / "final", "--data", HELD_OUT, "--context", "256", "--max-tokens", "60000")
    return {"kind": kind, "train": train, "seed": seed, "accuracy": measured["accuracy"], "loss": measured["loss"]}


def table(results):
    lines = ["| attention | train | " + " | ".join(f"seed {seed}" for seed in SEEDS) + " |", "|---|---|---|---|---|"]
    for train in ("all", "attention"):
        for kind in KINDS:
            row = [next((f"{r['accuracy']:.4f}" for r in results if (r["kind"], r["train"], r["seed"]) ==
                         (kind, train, seed)), "") for seed in SEEDS]
            lines.append(f"| {kind} | {train} | " + " | ".join(row) + " |")
    return "\n".join(lines)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    file = OUT / "results.json"
    results = json.loads(file.read_text()) if file.exists() else []
    done = {(r["kind"], r["train"], r["seed"]) for r in results}
    for seed in SEEDS:
        for train in ("all", "attention"):
            for kind in KINDS:
                if (kind, train, seed) not in done:
                    results.append(finetuned(kind, train, seed))
                    file.with_suffix(".new").write_text(json.dumps(results, indent=1))
                    file.with_suffix(".new").rename(file)
                    print(results[-1], flush=True)
    print(table(results))


main()
