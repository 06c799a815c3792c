"""Attention as a module, and in place of the attention of a model that has q_proj, k_proj, v_proj and o_proj."""
# SPDX-License-Identifier: Apache-2.0
import torch

import darkformer


class SelfAttention(torch.nn.Module):
    """A model's own attention, in the form that most transformers have."""

    def __init__(self, hidden=64, heads=4):
        super().__init__()
        self.head_dim = hidden // heads
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            setattr(self, name, torch.nn.Linear(hidden, hidden))
        for projection in (self.q_proj, self.k_proj, self.v_proj):
            torch.nn.init.orthogonal_(projection.weight, gain=1.5)

    def forward(self, x):
        def heads(projection):
            return projection(x).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

        scores = heads(self.q_proj) @ heads(self.k_proj).transpose(-1, -2) * self.head_dim ** -0.5
        hidden = torch.ones(x.shape[1], x.shape[1]).triu(1) == 1
        weights = scores.masked_fill(hidden, -float("inf")).softmax(-1)
        return self.o_proj((weights @ heads(self.v_proj)).transpose(1, 2).flatten(2))


torch.manual_seed(1)
x = torch.randn(2, 100, 64)

# A module with learned M, of its own: queries, keys and values in, mixed values out.
attention = darkformer.Attention(heads=4, kv_heads=2, head_dim=16, attention="dark", features=64, window=8)
out = attention(torch.randn(2, 4, 100, 16), torch.randn(2, 2, 100, 16), torch.randn(2, 2, 100, 16))
print(attention, tuple(out.shape), [name for name, _ in attention.named_parameters()])

# In a model: the first layer stays exact, the second learns to do what it did.
model = torch.nn.Sequential(SelfAttention(), SelfAttention())
want = model(x).detach()
print("replaced:", darkformer.replace_attention(model, "dark", layers=[1], features=32))
optimizer = torch.optim.AdamW(model[1].parameters(), lr=1e-3)
for step in range(31):
    loss = (model(x) - want).square().mean()
    if step % 10 == 0:
        print(f"step {step:2}: {float(loss):.2e} from what it was")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
