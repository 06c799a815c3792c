"""Linear-time attention with data-aware random features for PyTorch, and the Gemma models that use it.

    import darkformer
    out = darkformer.dark_attention(q, k, v, draws, factor, window=16)   # the op
    layer = darkformer.Attention(heads=8, kv_heads=2, head_dim=64)       # a module with its parameters
    darkformer.replace_attention(model, attention="dark")                # in a model with q_proj .. o_proj
    gemma = darkformer.load_gemma("gemma-2b-dark")                       # a folder, plain or converted
"""
# SPDX-License-Identifier: Apache-2.0
from .attention import Attention, initial_factor
from .attention_spec import AttentionSpec
from .config import GemmaConfig, parse_gemma_config, read_gemma_config
from .folder import load_gemma, save_gemma
from .gemma import Gemma, GemmaState
from .ops import (dark_attention, dark_attention_prefill, dark_attention_step, draw_features, exact_attention,
                  library_path, random_attention)
from .replace import ReplacedAttention, replace_attention
from .tensor_files import read_safetensors, write_safetensors

__version__ = "0.1.0"

__all__ = [
    "Attention", "AttentionSpec", "Gemma", "GemmaConfig", "GemmaState", "ReplacedAttention", "dark_attention",
    "dark_attention_prefill", "dark_attention_step", "draw_features", "exact_attention", "initial_factor",
    "library_path", "load_gemma", "parse_gemma_config", "random_attention", "read_gemma_config",
    "read_safetensors", "replace_attention", "save_gemma", "write_safetensors",
]
