#!/usr/bin/env python3
"""rates.py PROGRAM OUT: does it hang on the learning rate which linear attention copies? The task of run.py, and its exact model
if OUT is the same; one seed, performer and dark (centred), three learning rates, and one with the attention alone trained. Prints a table."""
# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "shared"))
from copy_task import CopyTask  # noqa: E402

SEED = "1"
SETTINGS = {"1e-3": ("1e-3", []), "3e-3": ("3e-3", []), "6e-3": ("6e-3", []),
            "3e-3, --train attention": ("3e-3", ["--train", "attention"])}


def main():
    task = CopyTask(sys.argv[1], sys.argv[2])
    task.prepare()
    kinds = {"performer": ["--attention", "performer"],
             "dark": ["--attention", "dark", "--centre", "--data", task.text, "--context", "256"]}
    print("| learning rate | " + " | ".join(kinds) + " |\n|---|---|---|")
    for name, (rate, finetune) in SETTINGS.items():
        folder = "rate-" + name.replace(", --", "-").replace(" ", "-")
        cells = [task.finetuned(f"{folder}-{kind}", convert, SEED, finetune, rate)["full"] for kind, convert in kinds.items()]
        print(f"| {name} | " + " | ".join(f"{cell:.3f}" for cell in cells) + " |", flush=True)


main()
