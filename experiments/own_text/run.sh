#!/usr/bin/env bash
# run.sh PROGRAM MODEL TRAIN.txt HELD-OUT.txt WORK: is a model's own text good enough to convert it and to finetune it with?
# For three seeds and both texts: convert (dark, centred, window 16), finetune its attention for 100 steps, and measure both on HELD-OUT.
set -euo pipefail
program=$1 model=$2 train=$3 held_out=$4 work=$5
mkdir -p "$work"
own=$work/own.jsonl
[[ -e $own ]] || "$program" sample "$model" --tokens 240000 --seed 11 --out "$own"

measure() {
  "$program" eval "$1" --data "$held_out" --context 256 --against "$model" --json 2>/dev/null | tail -n 1 |
    python3 -c 'import json, sys; r = json.load(sys.stdin); print(sys.argv[1], *(f"{k} {r[k]:.4f}" for k in ("accuracy", "agreement", "kl", "perplexity")))' "$1"
}

measure "$model"
for seed in 1 2 3; do
  for text in "$train" "$own"; do
    folder=$work/$(basename "${text%.*}")-$seed
    "$program" convert "$model" --no-fit --near factor --attention dark --centre --window 16 --data "$text" --context 256 --seed $seed --out "$folder" >/dev/null
    "$program" finetune "$folder" --data "$text" --train attention --steps 100 --batch 8 --context 256 --lr 2e-4 --factor-lr-scale 5 \
      --warmup 10 --seed $seed --quiet --out "$folder-run" >/dev/null
    measure "$folder"
    measure "$folder-run/final"
  done
done
