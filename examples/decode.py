"""Decoding with a state: of exact attention it grows with the text, of linear-time attention it does not.

python3 decode.py MODEL, for example with models/gemma-tiny.
"""
# SPDX-License-Identifier: Apache-2.0
import sys

import torch

import darkformer

if len(sys.argv) != 2:
    sys.exit(__doc__)
model = darkformer.load_gemma(sys.argv[1])
prompt = torch.tensor([[2, *range(100, 163)]])                 # BOS and 63 more

for kind in ("exact", "dark"):
    model.set_attention(kind, **({"window": 8} if kind == "dark" else {}))
    state = darkformer.GemmaState()
    sizes = []
    for _ in range(3):
        written = model.generate(prompt, 64, state=state)      # reads the prompt, then writes 64 tokens
        sizes.append(f"{state.position} tokens: {state.bytes()} bytes")
        prompt = written[:, -1:]                               # the last one was not read yet
    print(f"{kind}: {'; '.join(sizes)}")
    prompt = torch.tensor([[2, *range(100, 163)]])
