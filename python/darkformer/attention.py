"""Attention between projected heads as a module: every kind the program knows, with parameters and state."""
# SPDX-License-Identifier: Apache-2.0
import torch

from . import ops
from .attention_spec import AttentionSpec

_FACTOR_STREAMS = 1 << 31  # streams of the generator below this are layers


def initial_factor(groups, rank, head_dim, seed=1, layer=0):
    """Where M starts: the identity, or random orthonormal rows where rank < head_dim -> (groups,rank,head_dim)."""
    if rank == head_dim:
        return torch.eye(head_dim).repeat(groups, 1, 1)
    rows = ops.draw_features(groups, rank, head_dim, seed, _FACTOR_STREAMS + layer, 0)
    return rows / rows.norm(dim=-1, keepdim=True)


def _map_heads(x, factor):
    """x (B,heads,T,D) M^T for the M (N,R,D) of each head's group."""
    groups = factor.shape[0]
    grouped = x.to(factor.dtype).reshape(x.shape[0], groups, -1, x.shape[2], x.shape[3])
    return torch.matmul(grouped, factor.transpose(-1, -2).unsqueeze(1)).reshape(x.shape).to(x.dtype)


class Attention(torch.nn.Module):
    """q (B,H,T,D), k (B,G,T,D), v (B,G,T,D), projected and rotated but not scaled -> (B,H,T,D). Causal.

    attention: "dark" (M learned), "performer", "lfk" (draws learned), "importance", "oprf", "sderf", "aderf"
    (fitted tensors, as a converted folder has them), "hedgehog" (learned softmax features), "exact", "window" (the nearest `window` keys and no other),
    "constant" or "random"; or an AttentionSpec.
    Options of the kinds with features, as `darkformer convert` has them: features (default: the head size), rank,
    placement ("kv-head", "query-head", "layer"), rope ("after", "before"), window, sinks, near_kernel ("model": exact
    keys by exp(q . k), "factor": through M), far_keys ("beyond", "all"), orthogonal, centre, gate.
    Of exact attention: softcap, and sliding, the keys that a query sees. Draws come from (seed, layer, draw_index).

    Parameters and buffers have the names of model folders: draws, factor, key_factor, log_weights, query_center,
    key_center, gate_scale, gate_bias, gate_weight.
    """

    def __init__(self, heads, kv_heads, head_dim, attention="dark", *, scale=None, softcap=0.0, sliding=0, layer=0,
                 seed=1, draw_index=0, **options):
        super().__init__()
        if kv_heads < 1 or heads % kv_heads:
            raise ValueError(f"{heads} heads do not divide among {kv_heads} key heads")
        if isinstance(attention, AttentionSpec):
            if options:
                raise ValueError(f"options {', '.join(options)}: an AttentionSpec has its own")
            self.spec = attention
        else:
            self.spec = AttentionSpec.make(attention, head_dim, **options)
        self.spec.check(head_dim, f"layer {layer}")
        self.heads, self.kv_heads, self.head_dim, self.layer = heads, kv_heads, head_dim, layer
        self.scale = head_dim ** -0.5 if scale is None else scale
        self.softcap, self.sliding = softcap, sliding
        if self.spec.attention == "window":
            self.sliding = min(sliding, self.spec.window) if sliding else self.spec.window
        self.seed, self.draw_index = seed, draw_index
        if self.spec.has_features:
            self._register_features()
            self._register_gate()

    def _register_features(self):
        spec, groups, size = self.spec, self.groups, self.head_dim
        if not spec.has_draws:
            factor = self.scale ** 0.5 * initial_factor(groups, spec.factor_rows, size, self.seed, self.layer)
            self._register("factor", factor, learned=True)
            self._register("key_factor", factor.clone(), learned=True)
            return
        self._register("draws", self._fresh_draws(), learned=spec.learns_draws)
        if spec.has_factor:
            factor = initial_factor(groups, spec.rank, size, self.seed, self.layer)
            self._register("factor", factor, learned=spec.attention == "dark")
        if spec.own_key_factor:
            self._register("key_factor", factor.clone(), learned=True)
        elif spec.has_key_factor:
            self.register_buffer("key_factor", torch.eye(size)[:spec.rank].repeat(groups, 1, 1))
        if spec.has_log_weights:
            self.register_buffer("log_weights", torch.zeros(groups, spec.features))
        if spec.centre:
            self.register_buffer("query_center", torch.zeros(groups, size))
            self.register_buffer("key_center", torch.zeros(self.kv_heads, size))

    def _register_gate(self):
        if self.spec.gate:
            self._register("gate_scale", torch.full((self.heads,), 0.5), learned=True)
            self._register("gate_bias", torch.zeros(self.heads), learned=True)
            self._register("gate_weight", torch.zeros(self.heads, self.spec.rank), learned=True)

    def _register(self, name, tensor, learned):
        if learned:
            self.register_parameter(name, torch.nn.Parameter(tensor))
        else:
            self.register_buffer(name, tensor)

    def _apply(self, fn):
        """model.to(bfloat16), .half() and the like leave the parameters here in float32, in which the kernels compute."""
        def apply(tensor):
            changed = fn(tensor)
            return tensor.to(changed.device) if changed.dtype in (torch.bfloat16, torch.float16) else changed

        return super()._apply(apply)

    @property
    def groups(self):
        """N, the number of sets of parameters."""
        return {"kv-head": self.kv_heads, "query-head": self.heads, "layer": 1}[self.spec.placement]

    def _fresh_draws(self):
        return ops.draw_features(self.groups, self.spec.features, self.spec.rank, self.seed, self.layer,
                                 self.draw_index, self.spec.orthogonal)

    def redraw(self, draw_index):
        """New draws, unless they are learned, or fitted with their weights."""
        self.draw_index = draw_index
        if self.spec.has_draws and not self.spec.learns_draws and not self.spec.has_log_weights:
            with torch.no_grad():
                self.draws.copy_(self._fresh_draws())

    def _for_op(self, name):
        """A parameter or None; one set for the layer becomes one for each kv head."""
        tensor = getattr(self, name, None)
        if tensor is None or self.spec.placement != "layer":
            return tensor
        return tensor.expand(self.kv_heads, *tensor.shape[1:])

    def _op_draws(self):
        """The draws, or for the op none of the right shape."""
        factor = self._for_op("factor")
        return self._for_op("draws") if self.spec.has_draws else factor.new_empty(factor.shape[0], 0, self.head_dim)

    def _gate(self, q):
        """(B,H,T,2): (c, b + u . sqrt(scale) M (q - a))."""
        rows = self.gate_weight                                                                  # (H,R)
        factor = self._for_op("factor")
        if factor is not None and self.spec.has_draws and self.spec.rope == "after":
            grouped = rows.reshape(factor.shape[0], -1, self.spec.rank)
            rows = torch.matmul(grouped, factor).reshape(self.heads, self.head_dim)              # (H,D)
        rows = self.scale ** 0.5 * rows
        bias = (q * rows.unsqueeze(1)).sum(-1) + self.gate_bias.unsqueeze(1)                     # (B,H,T)
        center = self._for_op("query_center")
        if center is not None:
            of_head = center.repeat_interleave(self.heads // center.shape[0], 0)
            bias = bias - (of_head * rows).sum(-1, keepdim=True)
        return torch.stack([self.gate_scale.unsqueeze(1).expand_as(bias), bias], -1)

    def _options(self, q):
        after = self.spec.rope == "after"
        options = {"factor": self._for_op("factor") if after else None,
                   "key_factor": self._for_op("key_factor") if after else None,
                   "log_weights": self._for_op("log_weights"), "query_center": self._for_op("query_center"),
                   "key_center": getattr(self, "key_center", None), "scale": self.scale,
                   "window": self.spec.window, "sinks": self.spec.sinks,
                   "model_near": self.spec.near_kernel == "model", "far_all": self.spec.far_keys == "all",
                   "softmax_features": self.spec.attention == "hedgehog"}
        if self.spec.gate:
            options["gate"] = self._gate(q)
        return options

    def map_heads(self, x):
        """Applied to queries and keys before the rotation: M where the spec says rope="before", else nothing."""
        factor = self._for_op("factor")
        return x if factor is None or self.spec.rope == "after" else _map_heads(x, factor)

    def forward(self, q, k, v):
        """All tokens of a sequence at once. Differentiable."""
        kind = self.spec.attention
        if kind in ("exact", "window"):
            return ops.exact_attention(q, k, v, scale=self.scale, window=self.sliding, softcap=self.softcap)
        if kind == "constant":
            return self._running_means(v, 0.0, 0)
        if kind == "random":
            return ops.random_attention(v, self.heads, self.seed, self.layer, self.draw_index)
        return ops.dark_attention(q, k, v, self._op_draws(), **self._options(q))

    @torch.no_grad()
    def extend(self, q, k, v, state):
        """T more tokens of a sequence -> (B,H,T,D). `state` is a list that starts empty and is updated in place;
        of the kinds with features and of constant attention it does not grow. Not differentiable."""
        kind = self.spec.attention
        if kind in ("exact", "window"):
            return self._extend_exact(q, k, v, state)
        if kind == "constant":
            return self._extend_constant(v, state)
        if kind == "random":
            before = state[0].shape[2] if state else 0
            state[:] = [torch.cat([state[0], v], 2) if state else v]
            return ops.random_attention(state[0], self.heads, self.seed, self.layer, self.draw_index, before)
        if state and q.shape[2] == 1:
            return ops.dark_attention_step(q, k, v, self._op_draws(), state=state, **self._options(q))
        out, state[:] = ops.dark_attention_prefill(q, k, v, self._op_draws(), state=state, **self._options(q))
        return out

    def _extend_exact(self, q, k, v, state):
        if state:
            k, v = torch.cat([state[0], k], 2), torch.cat([state[1], v], 2)
        out = ops.exact_attention(q, k, v, scale=self.scale, window=self.sliding, softcap=self.softcap)
        first = max(0, k.shape[2] - self.sliding) if self.sliding else 0
        state[:] = [k[:, :, first:], v[:, :, first:]]
        return out

    def _running_means(self, v, total, before):
        """The running means of v after `before` values of sum `total` (B,G,1,D), in double: a float sum drifts."""
        counts = torch.arange(before + 1, before + v.shape[2] + 1, dtype=torch.float64, device=v.device)
        means = (v.double().cumsum(2) + total) / counts.unsqueeze(1)
        return means.to(v.dtype).repeat_interleave(self.heads // v.shape[1], 1)

    def _extend_constant(self, v, state):
        total, before = state if state else (0.0, 0)
        out = self._running_means(v, total, before)
        state[:] = [total + v.double().sum(2, keepdim=True), before + v.shape[2]]
        return out

    def extra_repr(self):
        described = ", ".join(f"{name}={value}" for name, value in self.spec.to_json().items())
        return f"heads={self.heads}, kv_heads={self.kv_heads}, head_dim={self.head_dim}, {described}"
