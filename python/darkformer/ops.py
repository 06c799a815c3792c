"""The ops of libdarkformer_ops.so as functions: finding and loading the library, names and defaults."""
# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import torch

LIBRARY = "libdarkformer_ops.so"


def library_path():
    """The library that this package uses: $DARKFORMER_OPS, the one installed beside the package, or that of a
    source tree's build. Raises ImportError with the places it looked at."""
    given = os.environ.get("DARKFORMER_OPS")
    if given:
        return Path(given)
    here = Path(__file__).resolve().parent
    prefix_lib, tree = here.parents[2], here.parents[1]
    places = [prefix_lib / LIBRARY, *sorted(prefix_lib.glob(f"*-linux-*/{LIBRARY}")),
              tree / "build" / "release" / "darkformer" / LIBRARY]
    for place in places:
        if place.is_file():
            return place
    raise ImportError(f"{LIBRARY} is not at {' or '.join(map(str, places))}; run make install, or let "
                      "DARKFORMER_OPS name it")


torch.ops.load_library(str(library_path()))
_ops = torch.ops.darkformer


def _run(op, *tensors, **options):
    """The op; where it fails because an argument is none it can take, one line says which."""
    try:
        return op(*tensors, **options)
    except (RuntimeError, TypeError, NotImplementedError) as error:
        name = op.__name__
        for argument, value in (*zip(("q", "k", "v", "draws", "factor"), tensors), *options.items()):
            if type(value).__name__ == "ndarray":
                raise TypeError(f"{name}: {argument} must be a torch.Tensor, got a numpy array; torch.from_numpy "
                                "makes one") from None
            if isinstance(value, torch.Tensor) and value.layout != torch.strided:
                raise ValueError(f"{name}: {argument} is {value.layout}; wanted a dense tensor, as to_dense() "
                                 "gives") from None
        # PyTorch's own words for a wrong type or name, without the value and the schema behind them.
        short = str(error).split("\nPosition:")[0].split(" Schema:")[0]
        if short == str(error):
            raise
        raise TypeError(short) from None


def dark_attention(q, k, v, draws, factor=None, **options):
    """Linear-time attention with positive random features -> (B,H,T,Dv). Differentiable in every tensor.

    q (B,H,T,D), k (B,G,S,D), v (B,G,S,Dv), H a multiple of G; draws (N,F,R) with N = G or H sets of parameters;
    factor M (N,R,D): the draws' covariance is M^T M; none: the identity. Options, all by name:
      key_factor (N,R,D)        another map for the keys
      log_weights (N,F)         log weight of each draw
      query_center (N,D), key_center (G,D)    subtracted; the result stays an estimate of the same attention
      gate (H,2) or (B,H,T,2)   (c, bias) of the gate between window and far field; none: (1, 0)
      scale                     of the scores, default D^-1/2
      causal=True, window=0, sinks=0    nearest and first keys that stay exact; a window needs causal
      model_near=False          True: these by exp(scale q . k), the model's own kernel, not through the factor
      far_all=False             True: the features see these keys too
      softmax_features=False    True: the features of Hedgehog, [softmax(M x), softmax(-M x)] with factor (queries) and
                                key_factor (keys) (N,F/2,D); draws is an empty (N,0,D), neither weights nor centres
    float32 and bfloat16 on the CPU run the kernels; float64 and other devices a composition of PyTorch calls.
    """
    return _run(_ops.dark_attention, q, k, v, draws, factor, **options)


def dark_attention_prefill(q, k, v, draws, factor=None, *, state=(), **options):
    """dark_attention on T more tokens of a sequence -> (out, state). An empty state starts one; the state given
    is not changed. Not for training."""
    return _run(_ops.dark_attention_prefill, q, k, v, draws, factor, **options, state=list(state))


def dark_attention_step(q, k, v, draws, factor=None, *, state, **options):
    """dark_attention on one more token (T = 1) -> out; the state is updated in place and does not grow."""
    return _run(_ops.dark_attention_step, q, k, v, draws, factor, **options, state=state)


def exact_attention(q, k, v, *, scale=None, causal=True, window=0, softcap=0.0):
    """Softmax attention -> (B,H,T,Dv), shapes as in dark_attention. window: the keys a query sees, its own
    included, 0 for all; softcap c: scores become c tanh(score / c). Differentiable in q, k, v."""
    return _run(_ops.exact_attention, q, k, v, scale=scale, causal=causal, window=window, softcap=softcap)


def random_attention(v, heads, seed, layer, index, start=0):
    """The baseline of random weights over the visible keys: v (B,G,S,Dv) -> (B,heads,S-start,Dv), a function of
    (seed, layer, index) and the positions."""
    return _ops.random_attention(v.float(), heads, seed, layer, index, start).to(v.dtype)


def draw_features(groups, features, rank, seed=1, stream=0, index=0, orthogonal=True):
    """Draws (groups,features,rank), float32: the same numbers as the program's from the same seed, stream (the
    layer) and index (the redraw). Orthogonal in blocks of `rank`, with the norms of Gaussian vectors."""
    return _ops.draw_features(groups, features, rank, seed, stream, index, orthogonal)


def by_kernels(x):
    """Do linear, rms_norm, rotary and geglu take x? float32 on the CPU: what the program computes in."""
    return x.dtype == torch.float32 and x.device.type == "cpu"


def linear(x, weight):
    """x W^T on the program's kernels: x (...,in) float32, weight (out,in) -> (...,out). Differentiable once."""
    return _ops.linear(x, weight)


def rms_norm(x, weight, epsilon):
    """Gemma's norm on the program's kernels: x / rms(x) (1 + weight) over the last dimension. Differentiable once."""
    return _ops.rms_norm(x, weight, epsilon)


def rotary(x, base, factor=1.0, start=0):
    """Rotary positions on the program's kernels: x (B,heads,T,D) float32 with each pair (i, i + D/2) turned by its
    position, the first at `start`, times base^(-2i/D) / factor. Differentiable once."""
    return _ops.rotary(x, base, factor, start)


def geglu(gate, up):
    """gelu(gate) up on the program's kernels, with the tanh form of gelu. Differentiable once."""
    return _ops.geglu(gate, up)
