"""Gemma 1, 2 and 3 (text) in PyTorch, each layer with exact or linear-time attention.

float32 on the CPU runs on the program's kernels, so that sums are added up in its order; all else in plain PyTorch.
"""
# SPDX-License-Identifier: Apache-2.0
import dataclasses

import torch
from torch.nn import functional

from . import ops
from .attention import Attention
from .attention_spec import AttentionSpec


class Norm(torch.nn.Module):
    """x / rms(x) (1 + w) over the last dimension, in float32 at least."""

    def __init__(self, size, epsilon):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(size))
        self.epsilon = epsilon

    def forward(self, x):
        if ops.by_kernels(x):
            return ops.rms_norm(x, self.weight, self.epsilon)
        wide = x.float() if x.dtype in (torch.bfloat16, torch.float16) else x
        normed = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon)
        return (normed * (1.0 + self.weight.to(wide.dtype))).to(x.dtype)


def _linear(x, weight):
    return ops.linear(x, weight) if ops.by_kernels(x) else functional.linear(x, weight)


class Projection(torch.nn.Linear):
    """x W^T."""

    def forward(self, x):
        return _linear(x, self.weight)


def _projection(inputs, outputs):
    # Weights come from a file: no need to draw some first.
    return torch.nn.utils.skip_init(Projection, inputs, outputs, bias=False)


def rotate(x, rope, start):
    """x (B,heads,T,D) with each pair (i, i + D/2) turned by its position, the first at `start`. Angles in double."""
    base, factor = rope
    if ops.by_kernels(x):
        return ops.rotary(x, base, factor, start)
    half = x.shape[-1] // 2
    frequencies = base ** (-torch.arange(half, dtype=torch.float64, device=x.device) / half) / factor
    positions = torch.arange(start, start + x.shape[2], dtype=torch.float64, device=x.device)
    angles = torch.outer(positions, frequencies)                                                 # (T,D/2)
    cosine, sine = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cosine - second * sine, first * sine + second * cosine], -1)


class SelfAttention(torch.nn.Module):
    """Projections to heads, norms and rotation around an interchangeable Attention, `dark`."""

    def __init__(self, config, layer):
        super().__init__()
        queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
        self.q_proj = _projection(config.hidden_size, queries)
        self.k_proj = _projection(config.hidden_size, keys)
        self.v_proj = _projection(config.hidden_size, keys)
        self.o_proj = _projection(queries, config.hidden_size)
        self.q_norm = Norm(config.head_dim, config.rms_norm_eps) if config.family == 3 else None
        self.k_norm = Norm(config.head_dim, config.rms_norm_eps) if config.family == 3 else None
        self.rope = config.rope_sliding if config.sliding[layer] else config.rope_full
        self.head_dim = config.head_dim
        self.dark = make_attention(config, layer)

    def forward(self, x, start=0, state=None):
        def heads(projection, norm):
            split = projection(x).unflatten(-1, (-1, self.head_dim))                             # (B,T,heads,D)
            return (split if norm is None else norm(split)).transpose(1, 2)                      # (B,heads,T,D)

        q = rotate(self.dark.map_heads(heads(self.q_proj, self.q_norm)), self.rope, start)       # (B,H,T,D)
        k = rotate(self.dark.map_heads(heads(self.k_proj, self.k_norm)), self.rope, start)       # (B,G,T,D)
        v = heads(self.v_proj, None)                                                             # (B,G,T,D)
        mixed = self.dark(q, k, v) if state is None else self.dark.extend(q, k, v, state)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))                                     # (B,T,E)


def make_attention(config, layer):
    """The Attention of a layer, with its parameters as they start from the config's seed."""
    return Attention(config.heads, config.kv_heads, config.head_dim, config.attention[layer], scale=config.scale,
                     softcap=config.attn_softcap, sliding=config.sliding_window if config.sliding[layer] else 0,
                     layer=layer, seed=config.seed, draw_index=config.draw_index)


class FeedForward(torch.nn.Module):
    """down(gelu(gate x) * up x)."""

    def __init__(self, config):
        super().__init__()
        self.gate_proj = _projection(config.hidden_size, config.intermediate_size)
        self.up_proj = _projection(config.hidden_size, config.intermediate_size)
        self.down_proj = _projection(config.intermediate_size, config.hidden_size)

    def forward(self, x):
        gate, up = self.gate_proj(x), self.up_proj(x)
        return self.down_proj(ops.geglu(gate, up) if ops.by_kernels(gate) else
                              functional.gelu(gate, approximate="tanh") * up)


class Block(torch.nn.Module):
    """One layer: h = x + N2 attention(N1 x), y = h + N4 feed_forward(N3 h); Gemma 1 has N1 and, before its
    feed-forward part, N2 only."""

    def __init__(self, config, layer):
        super().__init__()
        def norm():
            return Norm(config.hidden_size, config.rms_norm_eps)

        self.self_attn = SelfAttention(config, layer)
        self.mlp = FeedForward(config)
        self.input_layernorm = norm()
        self.post_attention_layernorm = norm()
        self.pre_feedforward_layernorm = norm() if config.family > 1 else None
        self.post_feedforward_layernorm = norm() if config.family > 1 else None

    def forward(self, x, start=0, state=None):
        attended = self.self_attn(self.input_layernorm(x), start, state)
        if self.pre_feedforward_layernorm is None:
            h = x + attended
            return h + self.mlp(self.post_attention_layernorm(h))
        h = x + self.post_attention_layernorm(attended)
        return h + self.post_feedforward_layernorm(self.mlp(self.pre_feedforward_layernorm(h)))


class _Stack(torch.nn.Module):
    """What Hugging Face's names call `model`."""

    def __init__(self, config):
        super().__init__()
        self.embed_tokens = torch.nn.utils.skip_init(torch.nn.Embedding, config.vocab_size, config.hidden_size)
        self.layers = torch.nn.ModuleList(Block(config, layer) for layer in range(config.layers))
        self.norm = Norm(config.hidden_size, config.rms_norm_eps)


@dataclasses.dataclass
class GemmaState:
    """What a model keeps of the sequences it has read: tokens read, and a list for each layer."""
    position: int = 0
    layers: list = dataclasses.field(default_factory=list)

    def bytes(self):
        """Of all tensors."""
        return sum(tensor.numel() * tensor.element_size() for layer in self.layers for tensor in layer
                   if isinstance(tensor, torch.Tensor))


def _check_ids(ids, vocabulary):
    if not isinstance(ids, torch.Tensor) or ids.dim() != 2 or ids.dtype not in (torch.int64, torch.int32):
        got = f"{ids.dtype} {list(ids.shape)}" if isinstance(ids, torch.Tensor) else type(ids).__name__
        raise ValueError(f"ids: wanted an integer tensor of (sequences, tokens), got {got}")
    if ids.shape[1] == 0:
        raise ValueError("ids: no token; a text starts with BOS")
    # On another device a look at the values would wait for it.
    if ids.device.type == "cpu" and ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < vocabulary:
        wrong = ids[(ids < 0) | (ids >= vocabulary)][0]
        raise ValueError(f"ids: there is no token {int(wrong)}; the vocabulary has 0 to {vocabulary - 1}")


class Gemma(torch.nn.Module):
    """A Gemma; load_gemma gives one with its weights. named_parameters() and named_buffers() carry the names of
    model folders, so any PyTorch optimiser can finetune it and save_gemma writes it back."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.model = _Stack(config)

    def hidden(self, ids, state=None):
        """ids (B,T) -> hidden states (B,T,E) after the last norm."""
        _check_ids(ids, self.config.vocab_size)
        start = state.position if state else 0
        x = self.model.embed_tokens(ids) * self.config.hidden_size ** 0.5                        # (B,T,E)
        for layer, block in enumerate(self.model.layers):
            x = block(x, start, state.layers[layer] if state else None)
        return self.model.norm(x)

    def logits(self, hidden):
        """hidden (..., E) -> logits (..., V)."""
        raw = _linear(hidden, self.model.embed_tokens.weight)
        cap = self.config.final_softcap
        return cap * torch.tanh(raw / cap) if cap > 0 else raw

    def forward(self, ids):
        """ids (B,T) -> logits (B,T,V). Differentiable."""
        return self.logits(self.hidden(ids))

    def loss(self, ids):
        """Mean cross-entropy of ids (B,T+1), each token from those before it."""
        logits = self(ids[:, :-1])
        return functional.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())

    @torch.no_grad()
    def extend(self, ids, state):
        """T more tokens of the sequences of `state` (a GemmaState, new ones start empty) -> logits (B,T,V)."""
        if not isinstance(state, GemmaState):
            raise ValueError(f"state: wanted a GemmaState, got {type(state).__name__}")
        if not state.layers:
            state.layers = [[] for _ in self.model.layers]
        if len(state.layers) != len(self.model.layers):
            raise ValueError(f"state: of a model with {len(state.layers)} layers; this one has {len(self.model.layers)}")
        hidden = self.hidden(ids, state)
        state.position += ids.shape[1]
        return self.logits(hidden)

    @torch.no_grad()
    def generate(self, ids, tokens, temperature=0.0, state=None):
        """The next `tokens` ids after ids (B,T) -> (B,tokens): the most likely ones, or drawn at a temperature.
        Pass a state to go on from it, and to keep what was read."""
        if tokens < 0 or not 0 <= temperature < float("inf"):
            raise ValueError(f"generate: tokens {tokens}, temperature {temperature}; wanted at least 0 of both")
        state = GemmaState() if state is None else state
        chosen, feed = [], ids
        for _ in range(tokens):
            last = self.extend(feed, state)[:, -1]                                               # (B,V)
            feed = (last.argmax(-1, keepdim=True) if temperature == 0 else
                    torch.multinomial(torch.softmax(last / temperature, -1), 1))
            chosen.append(feed)
        return torch.cat(chosen, 1) if chosen else ids[:, :0]

    def set_attention(self, attention="dark", layers=None, seed=1, **options):
        """Converts layers (default: all without a sliding window) to another attention, its parameters fresh from
        the seed: what `darkformer convert` does, without data, so that importance, oprf, sderf and aderf start as
        performer until tensors fitted to data are put in. Options as in Attention. Returns the layers."""
        config = self.config
        if layers is None:
            layers = [layer for layer in range(config.layers) if not config.sliding[layer]]
        if isinstance(layers, (int, str)):
            raise ValueError(f"set_attention: layers is {layers!r}; wanted a list of numbers from 0 to {config.layers - 1}")
        layers = list(layers)
        for layer in layers:  # all before the first is changed
            if not isinstance(layer, int) or not 0 <= layer < config.layers:
                raise ValueError(f"set_attention: there is no layer {layer!r}; wanted 0 to {config.layers - 1}")
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 1 << 63:
            raise ValueError(f"set_attention: seed is {seed!r}; wanted a number of at least 0")
        spec = AttentionSpec.make(attention, config.head_dim, **options)
        spec.check(config.head_dim, "set_attention")
        config.attention = [spec if layer in layers else old for layer, old in enumerate(config.attention)]
        config.seed, config.draw_index = seed, 0
        for layer in layers:
            place = self.model.layers[layer].self_attn
            weight = place.q_proj.weight
            kind = torch.float64 if weight.dtype == torch.float64 else torch.float32
            place.dark = make_attention(config, layer).to(weight.device, kind)
        return layers

    def redraw(self, draw_index):
        """New draws in every layer that has some and does not learn them."""
        self.config.draw_index = draw_index
        for block in self.model.layers:
            block.self_attn.dark.redraw(draw_index)
