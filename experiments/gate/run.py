#!/usr/bin/env python3
"""run.py PROGRAM OUT [copy|text]: how should a window be joined to the far field?

Variants of the gate (docs/window.md) against each other, on text (the embedded model, `make text` first; 150 steps)
and on the copy task (300 steps), both with dark attention, a window of 16 and the factor at
five times the learning rate; three seeds of draws and data order. Writes OUT/copy.json and OUT/text.json after each run
and goes on from there; prints a table of means.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "shared"))
import text_task  # noqa: E402
from copy_task import CopyTask  # noqa: E402

PROGRAM, OUT = sys.argv[1], Path(sys.argv[2])
SEEDS = (1, 2, 3)
WINDOW = ["--window", "16", "--near", "factor"]  # as measured in docs/window.md
# name -> options of convert, options of finetune
VARIANTS = {
    "no window (linear only)": ([], []),
    "window only": ([*WINDOW, "--gate-scale", "0", "--gate-bias", "50"],
                    ["--freeze", "gate_scale", "--freeze", "gate_bias", "--freeze", "gate_weight"]),
    "one normaliser (c = 1 fixed)": ([*WINDOW, "--no-gate"], []),
    "c, b, u learned, c from 1": ([*WINDOW, "--gate-scale", "1"], []),
    "c, b, u learned, c from ½": ([*WINDOW, "--gate-scale", "0.5"], []),
    "c, b, u learned, c from 0": ([*WINDOW, "--gate-scale", "0"], []),
    "b learned, c = 0": ([*WINDOW, "--gate-scale", "0"], ["--freeze", "gate_scale", "--freeze", "gate_weight"]),
    "b, u learned, c = 0": ([*WINDOW, "--gate-scale", "0"], ["--freeze", "gate_scale"]),
    "b, u learned, c = 0, b from 0": ([*WINDOW, "--gate-scale", "0", "--gate-bias", "0"], ["--freeze", "gate_scale"]),
}


def folder_name(variant, seed):
    return "".join(letter if letter.isalnum() else "-" for letter in variant) + f"-{seed}"


def on_text(variant, seed):
    convert, finetune = VARIANTS[variant]
    return text_task.finetuned(PROGRAM, OUT / "text" / folder_name(variant, seed), convert, seed, finetune)


def on_copy(variant, seed, task):
    convert, finetune = VARIANTS[variant]
    return {"copy": task.finetuned(folder_name(variant, "gate"), ["--attention", "dark", "--centre", *convert, "--data",
                                                                  task.text, "--context", "256"], seed, finetune)["full"]}


def means(results, task, variant, key):
    values = [r[key] for r in results if (r["task"], r["variant"]) == (task, variant)]
    spread = f" ({min(values):.3f}–{max(values):.3f})" if len(values) > 1 else ""
    return f"{sum(values) / len(values):.3f}{spread}" if values else ""


def table(results):
    lines = ["| join | copy at 128 | text: zero-shot | text: finetuned | loss |", "|---|---|---|---|---|"]
    for variant in VARIANTS:
        cells = [means(results, task, variant, key) for task, key in
                 (("copy", "copy"), ("text", "zero_shot"), ("text", "accuracy"), ("text", "loss"))]
        lines.append(f"| {variant} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def measure(name, variant, seed, task):
    return on_copy(variant, seed, task) if name == "copy" else on_text(variant, seed)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    task = CopyTask(PROGRAM, OUT / "copy-task")
    results = []
    for name in sys.argv[3:] or ("copy", "text"):
        file = OUT / f"{name}.json"
        if name == "copy":
            task.prepare()
        found = json.loads(file.read_text()) if file.exists() else []
        for seed in SEEDS:
            for variant in VARIANTS:
                if not any((r["variant"], r["seed"]) == (variant, seed) for r in found):
                    found.append({"task": name, "variant": variant, "seed": seed, **measure(name, variant, seed, task)})
                    file.with_suffix(".new").write_text(json.dumps(found, indent=1))
                    file.with_suffix(".new").rename(file)
                    print(found[-1], flush=True)
        results += found
    print(table(results))


main()
