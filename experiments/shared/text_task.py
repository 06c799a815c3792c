"""The embedded model on the speeches (`make text` first): converted to dark attention, finetuned for 150 steps, measured on held-out ones."""
# SPDX-License-Identifier: Apache-2.0
from copy_task import run

MODEL = "models/gemma-tiny"
TEXT, HELD_OUT = "build/text/speeches.jsonl", "build/text/speeches-held-out.jsonl"
SETTINGS = ["--steps", "150", "--context", "256", "--batch", "8", "--lr", "2e-3", "--warmup", "20",
            "--factor-lr-scale", "5", "--checkpoint-every", "150", "--eval-windows", "1"]


def finetuned(program, folder, convert, seed, finetune=()):
    """Zero-shot accuracy, and accuracy and loss after finetuning, of the model converted with these options (dark, centred)."""
    start = folder.with_name(folder.name + "-start")
    if not start.exists():
        run(program, "convert", "--no-fit", MODEL, "--attention", "dark", "--centre", *convert, "--data", TEXT, "--context", "256",
            "--seed", seed, "--out", start)
    run(program, "finetune", start, "--data", TEXT, *SETTINGS, *finetune, "--seed", seed, "--out", folder, "--resume")
    before, after = (run(program, "eval", model, "--data", HELD_OUT, "--context", "256", "--max-tokens", "60000",
                         "--no-attribution") for model in (start, folder / "final"))
    return {"zero_shot": before["accuracy"], "accuracy": after["accuracy"], "loss": after["loss"]}
