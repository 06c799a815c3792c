"""The attention op from Python: linear-time attention, its gradient, and exact attention to compare."""
# SPDX-License-Identifier: Apache-2.0
import torch

import darkformer

torch.manual_seed(1)
q = 0.5 * torch.randn(1, 8, 1024, 64)                          # 8 query heads
k = 0.5 * torch.randn(1, 2, 1024, 64)                          # on 2 kv heads
v = torch.randn(1, 2, 1024, 64)
draws = darkformer.draw_features(2, 256, 64, seed=1)           # (kv heads, features, rank)
factor = torch.eye(64).repeat(2, 1, 1).requires_grad_()        # M: the covariance of the draws is M^T M

exact = darkformer.exact_attention(q, k, v)
for window in (0, 16, 256):
    out = darkformer.dark_attention(q, k, v, draws, factor, window=window)
    distance = float((out - exact).norm() / exact.norm())
    print(f"window {window:3}: {tuple(out.shape)}, {distance:.3f} from exact attention")

out.square().mean().backward()
print(f"|dM| {float(factor.grad.norm()):.3g}")
