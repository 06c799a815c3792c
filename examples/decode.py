"""Decoding with a state: of exact attention it grows with the text, of linear-time attention it does not.

python3 decode.py MODEL, for example with models/gemma-tiny.
"""
# SPDX-License-Identifier: Apache-2.0
import sys

import torch

import darkformer

model = darkformer.load_gemma(sys.argv[1])
prompt = torch.tensor([[2, *range(100, 163)]])                 # BOS and 63 more

for kind in ("exact", "dark"):
    if kind == "dark":
        model.set_attention("dark", window=8)
    state = darkformer.GemmaState()
    sizes = []
    for _ in range(3):
        written = model.generate(prompt, 64, state=state)      # reads the prompt, then writes 64 tokens
        sizes.append(f"{state.position} tokens: {state.bytes()} bytes")
        prompt = written[:, -1:]                               # the last one was not read yet
    print(f"{kind}: {'; '.join(sizes)}")
    prompt = torch.tensor([[2, *range(100, 163)]])
