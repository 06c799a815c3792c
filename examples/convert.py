"""Converts a Gemma folder in Python, finetunes it, and writes a folder that the program reads too.

python3 convert.py MODEL OUT, for example with models/gemma-tiny.
"""
# SPDX-License-Identifier: Apache-2.0
import sys

import torch

import darkformer

if len(sys.argv) != 3:
    sys.exit(__doc__)
source, target = sys.argv[1:]
model = darkformer.load_gemma(source)
ids = torch.randint(3, model.config.vocab_size, (2, 32), generator=torch.Generator().manual_seed(1))
ids = torch.cat([ids, ids], 1)                                 # a text that says everything twice
print(f"exact: loss {model.loss(ids).item():.3f}")

layers = model.set_attention("dark", window=8, gate=True)      # all without a sliding window
print(f"dark in layers {layers}: loss {model.loss(ids).item():.3f}")

# The paper's M learns best with a learning rate of its own.
factors = [p for name, p in model.named_parameters() if name.endswith("dark.factor")]
others = [p for name, p in model.named_parameters() if not name.endswith("dark.factor")]
optimizer = torch.optim.AdamW([{"params": others, "lr": 1e-3}, {"params": factors, "lr": 5e-3}])
for _ in range(10):
    optimizer.zero_grad()
    loss = model.loss(ids)
    loss.backward()
    optimizer.step()
print(f"after 10 steps: loss {model.loss(ids).item():.3f}")

darkformer.save_gemma(target, model, companions=source, dtype=torch.bfloat16)
print(f"{target}: next, darkformer eval {target} --data FILE")
