"""Another attention in models whose attention has the common q_proj, k_proj, v_proj, o_proj form."""
# SPDX-License-Identifier: Apache-2.0
import inspect
import typing

import torch

from .attention import Attention

_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj")
_CACHES = ("past_key_values", "past_key_value", "layer_past")


def _first(*values):
    return next((value for value in values if value is not None), None)


def _head_dim(module):
    """The head size that the module or its config says."""
    config = getattr(module, "config", None)
    size = _first(getattr(module, "head_dim", None), getattr(config, "head_dim", None))
    if size is None:
        heads = _first(getattr(module, "num_heads", None), getattr(config, "num_attention_heads", None))
        if heads is None:
            raise ValueError("neither it nor its config has head_dim or the number of heads")
        size = module.q_proj.out_features // heads
    return size


def _is_sliding(module):
    return bool(getattr(module, "is_sliding", False) or getattr(module, "sliding_window", None))


def _output_count(module):
    """How many values forward returns, by its annotation; 0: a plain tensor."""
    try:
        returned = typing.get_type_hints(type(module).forward).get("return")
    except (NameError, TypeError):  # annotations that cannot be resolved here
        returned = inspect.signature(type(module).forward).return_annotation
    return len(typing.get_args(returned)) if typing.get_origin(returned) is tuple else 0


def _rotate(x, cosine, sine):
    """x (B,heads,T,D) by the tables (B,T,D) or (T,D) of Hugging Face's rotary embeddings."""
    first, second = x.chunk(2, -1)
    turned = torch.cat([-second, first], -1)
    return x * cosine.unsqueeze(-3) + turned * sine.unsqueeze(-3)


class ReplacedAttention(torch.nn.Module):
    """Stands where a model's attention stood: its projections, and its q_norm and k_norm if it has them, around an
    Attention (`dark`). Rotates by `position_embeddings` (cos, sin) where the model passes them, or by the module's own
    `rotary_emb` and `position_ids`; without either there is no rotation. Causal, without padding and without caches:
    a mask that hides anything else and a cache are errors."""

    def __init__(self, module, attention, outputs):
        super().__init__()
        for name in (*_PROJECTIONS, "q_norm", "k_norm", "rotary_emb"):
            child = getattr(module, name, None)
            if isinstance(child, torch.nn.Module):
                self.add_module(name, child)
        self.dark = attention
        self.head_dim = attention.head_dim
        self.outputs = outputs
        self.names = list(inspect.signature(module.forward).parameters)[1:]

    def _tables(self, x, given):
        if given.get("position_embeddings") is not None:
            return given["position_embeddings"]
        rotary = getattr(self, "rotary_emb", None)
        if rotary is None:
            return None
        positions = given.get("position_ids")
        if positions is None:
            positions = torch.arange(x.shape[1], device=x.device).unsqueeze(0)
        return rotary(x, positions)

    @staticmethod
    def _check(given, tokens):
        if any(given.get(name) is not None for name in _CACHES):
            raise ValueError("replaced attention keeps no cache of keys: call the model with use_cache=False")
        mask = given.get("attention_mask")
        if mask is None:
            return
        seen = mask if mask.dtype == torch.bool else mask == (1 if mask.dim() == 2 else 0)
        causal = torch.ones(tokens, tokens, dtype=torch.bool, device=mask.device).tril()
        good = seen.all() if mask.dim() == 2 else (seen[..., :tokens, :tokens] == causal).all()
        if not good:
            raise ValueError("replaced attention is causal over whole sequences: no padding, no other masks")

    def forward(self, hidden_states, *arguments, **named):
        """As the module it replaces; of several outputs the others are None."""
        given = {**dict(zip(self.names, arguments)), **named}
        self._check(given, hidden_states.shape[1])

        def heads(projection, norm):
            split = projection(hidden_states).unflatten(-1, (-1, self.head_dim))                 # (B,T,heads,D)
            return (norm(split) if norm is not None else split).transpose(1, 2)                  # (B,heads,T,D)

        q = self.dark.map_heads(heads(self.q_proj, getattr(self, "q_norm", None)))
        k = self.dark.map_heads(heads(self.k_proj, getattr(self, "k_norm", None)))
        v = heads(self.v_proj, None)
        tables = self._tables(v.transpose(1, 2).flatten(2), given)
        if tables is not None:
            q, k = _rotate(q, *tables), _rotate(k, *tables)
        mixed = self.dark(q, k, v)
        out = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return (out, *[None] * (self.outputs - 1)) if self.outputs else out


def replace_attention(model, attention="dark", *, layers=None, keep=_is_sliding, outputs=None, seed=1, **options):
    """Gives every attention of a model that has q_proj, k_proj, v_proj and o_proj another kind, in place.

    Attention modules are counted in the order of model.named_modules(); layers: the numbers to replace (default: all);
    keep(module): those to leave as they are (default: layers with a sliding window). attention and options as in
    Attention. The scale of the scores is the module's `scaling` (default: head size ^-1/2). outputs: how many values
    the module's forward returns (0: a plain tensor; default: what its annotation says). Returns the names of what was
    replaced. ValueError where nothing fits.
    """
    found = [(name, module) for name, module in model.named_modules()
             if all(hasattr(module, part) for part in _PROJECTIONS) and not isinstance(module, ReplacedAttention)]
    replaced = []
    for number, (name, module) in enumerate(found):
        if (layers is not None and number not in layers) or keep(module):
            continue
        try:
            size = _head_dim(module)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
        made = Attention(module.q_proj.out_features // size, module.k_proj.out_features // size, size, attention,
                         scale=_first(getattr(module, "scaling", None), size ** -0.5), layer=number, seed=seed, **options)
        count = _output_count(module) if outputs is None else outputs
        parent, _, child = name.rpartition(".")
        setattr(model.get_submodule(parent), child,
                ReplacedAttention(module, made.to(module.q_proj.weight.device), count))
        replaced.append(name)
    if not replaced:
        raise ValueError(f"nothing to replace: {len(found)} modules have {', '.join(_PROJECTIONS)}, all of them kept")
    return replaced
