#!/usr/bin/env python3
"""run.py PROGRAM OUT [copy|text]: how should a window be joined to the far field?

Variants of the gate (docs/window.md) against each other, on text (the embedded model, `make text` first; 150 steps)
and on the copy task of experiments/far_field (300 steps), both with dark attention, a window of 16 and the factor at
five times the learning rate; three seeds of draws and data order. Writes OUT/copy.json and OUT/text.json after each run
and goes on from there; prints a table of means.
"""
# SPDX-License-Identifier: Apache-2.0
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "far_field"))
from copy_task import CopyTask, run  # noqa: E402

PROGRAM, OUT = sys.argv[1], Path(sys.argv[2])
SEEDS = (1, 2, 3)
MODEL = "models/gemma-tiny"
TEXT, HELD_OUT = "build/text/speeches.jsonl", "build/text/speeches-held-out.jsonl"
SETTINGS = ["--steps", "150", "--context", "256", "--batch", "8", "--lr", "2e-3", "--warmup", "20",
            "--factor-lr-scale", "5", "--checkpoint-every", "150", "--eval-windows", "1"]
WINDOW = ["--window", "16"]
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
    """Zero-shot accuracy, and accuracy and loss after finetuning, on held-out speeches."""
    convert, finetune = VARIANTS[variant]
    start, tuned = OUT / "text" / (folder_name(variant, seed) + "-start"), OUT / "text" / folder_name(variant, seed)
    if not start.exists():
        run(PROGRAM, "convert", MODEL, "--attention", "dark", "--centre", *convert, "--data", TEXT, "--context", "256",
            "--seed", seed, "--out", start)
    run(PROGRAM, "finetune", start, "--data", TEXT, *SETTINGS, *finetune, "--seed", seed, "--out", tuned, "--resume")
    before, after = (run(PROGRAM, "eval", model, "--data", HELD_OUT, "--context", "256", "--max-tokens", "60000",
                         "--no-attribution") for model in (start, tuned / "final"))
    return {"zero_shot": before["accuracy"], "accuracy": after["accuracy"], "loss": after["loss"]}


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
