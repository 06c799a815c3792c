"""The module Attention and replace_attention, on a small model in the form of Hugging Face's."""
# SPDX-License-Identifier: Apache-2.0
import types
import unittest
from typing import Optional, Tuple

import torch

import darkformer


def normal(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class HuggingAttention(torch.nn.Module):
    """Softmax attention as transformers writes it: projections, rotation by tables, two outputs."""

    def __init__(self, heads=4, kv_heads=2, size=8, hidden=24, sliding_window=None):
        super().__init__()
        self.config = types.SimpleNamespace(num_attention_heads=heads, head_dim=size)
        self.head_dim, self.scaling, self.sliding_window = size, 0.2, sliding_window
        self.q_proj = torch.nn.Linear(hidden, heads * size)
        self.k_proj = torch.nn.Linear(hidden, kv_heads * size)
        self.v_proj = torch.nn.Linear(hidden, kv_heads * size)
        self.o_proj = torch.nn.Linear(heads * size, hidden)

    def forward(self, hidden_states: torch.Tensor, position_embeddings: Tuple[torch.Tensor, torch.Tensor],
                attention_mask: Optional[torch.Tensor] = None,
                past_key_values=None) -> Tuple[torch.Tensor, Optional[torch.Tensor]]:
        cosine, sine = (table.unsqueeze(1) for table in position_embeddings)

        def heads(projection):
            return projection(hidden_states).unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

        def turn(x):
            first, second = x.chunk(2, -1)
            return x * cosine + torch.cat([-second, first], -1) * sine

        q, k, v = turn(heads(self.q_proj)), turn(heads(self.k_proj)), heads(self.v_proj)
        shared = q.shape[1] // k.shape[1]
        scores = q @ k.repeat_interleave(shared, 1).transpose(-1, -2) * self.scaling
        mask = torch.ones(q.shape[2], q.shape[2]).tril() == 0
        weights = scores.masked_fill(mask, -float("inf")).softmax(-1)
        mixed = weights @ v.repeat_interleave(shared, 1)
        return self.o_proj(mixed.transpose(1, 2).flatten(2)), weights


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList([HuggingAttention(), HuggingAttention(sliding_window=4), HuggingAttention()])

    def forward(self, x, **options):
        angles = torch.outer(torch.arange(x.shape[1]).float(), 100.0 ** -(torch.arange(4) / 4))
        angles = torch.cat([angles, angles], -1).unsqueeze(0)
        for layer in self.layers:
            x = x + layer(x, (angles.cos(), angles.sin()), **options)[0]
        return x


class Replace(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        self.model, self.x = Model(), normal(2, 11, 24)

    def test_exact_gives_the_same_numbers(self):
        want = self.model(self.x)
        names = darkformer.replace_attention(self.model, "exact")
        self.assertEqual(names, ["layers.0", "layers.2"])  # the sliding one stays
        torch.testing.assert_close(self.model(self.x), want, rtol=1e-4, atol=1e-5)

    def test_many_features_come_near(self):
        want = self.model(self.x)
        distance = {}
        for features in (8, 4096):
            model = Model()
            model.load_state_dict(self.model.state_dict())
            darkformer.replace_attention(model, "performer", features=features)
            distance[features] = float((model(self.x) - want).norm() / want.norm())
        self.assertLess(distance[4096], 0.02)
        self.assertLess(distance[4096], distance[8])

    def test_learned_parameters_get_gradients(self):
        darkformer.replace_attention(self.model, "dark", window=3, gate=True, layers=[0])
        self.model(self.x).square().sum().backward()
        for name in ("factor", "gate_scale", "gate_bias", "gate_weight"):
            self.assertGreater(float(getattr(self.model.layers[0].dark, name).grad.abs().max()), 0, name)
        self.assertIsInstance(self.model.layers[2], HuggingAttention)

    def test_masks_and_caches(self):
        darkformer.replace_attention(self.model, "dark", keep=lambda module: False)
        causal = torch.zeros(2, 1, 11, 11).masked_fill(torch.ones(11, 11).tril() == 0, -1e9)
        torch.testing.assert_close(self.model(self.x, attention_mask=causal), self.model(self.x))
        padded = causal.clone()
        padded[0, :, :, 0] = -1e9
        for options, words in (({"attention_mask": padded}, "padding"), ({"past_key_values": object()}, "use_cache")):
            with self.assertRaisesRegex(ValueError, words):
                self.model(self.x, **options)

    def test_nothing_fits(self):
        with self.assertRaisesRegex(ValueError, "nothing to replace"):
            darkformer.replace_attention(torch.nn.Linear(2, 2))

    def test_plain_outputs(self):
        class Plain(HuggingAttention):
            """Without annotations, and with a tensor as its output."""

            def forward(self, x):
                return super().forward(x, (torch.ones(1, 1, 8), torch.zeros(1, 1, 8)))[0]

        model = torch.nn.ModuleDict({"attention": Plain()})
        want = model["attention"](self.x)
        darkformer.replace_attention(model, "exact")
        torch.testing.assert_close(model["attention"](self.x), want, rtol=1e-4, atol=1e-5)


class Arguments(unittest.TestCase):
    """What is no tensor, or no dense one, is one short line that names it."""

    def expect(self, kind, words, call):
        with self.assertRaisesRegex(kind, words) as caught:
            call()
        self.assertNotIn("\n", str(caught.exception))
        self.assertLess(len(str(caught.exception)), 150)

    def test_wrong_arguments(self):
        x, draws = torch.randn(1, 2, 8, 4), darkformer.draw_features(2, 8, 4)
        dark, exact = darkformer.dark_attention, darkformer.exact_attention
        self.expect(TypeError, "dark_attention: q must be a torch.Tensor, got a numpy array",
                    lambda: dark(x.numpy(), x, x, draws))
        self.expect(TypeError, "dark_attention: gate must be", lambda: dark(x, x, x, draws, gate=x[0, :, 0, :2].numpy(), window=2))
        self.expect(TypeError, "exact_attention: v must be", lambda: exact(x, x, x.numpy()))
        self.expect(TypeError, "dark_attention_prefill: k must be",
                    lambda: darkformer.dark_attention_prefill(x, x.numpy(), x, draws))
        self.expect(ValueError, "dark_attention: v is torch.sparse_coo; wanted a dense tensor",
                    lambda: dark(x, x, x.to_sparse(), draws))
        self.expect(TypeError, "argument 'q' but instead found type 'list'", lambda: dark([1.0], x, x, draws))
        self.expect(TypeError, "argument 'window' but instead found type 'float'", lambda: dark(x, x, x, draws, window=2.5))
        self.expect(TypeError, "Unknown keyword argument 'factr'", lambda: dark(x, x, x, draws, factr=x))
        self.expect(RuntimeError, "heads and time must agree", lambda: dark(x, x, x[:, :, :3], draws))


class Module(unittest.TestCase):
    def setUp(self):
        self.q, self.k, self.v = normal(1, 4, 9, 8), normal(1, 2, 9, 8, seed=2), normal(1, 2, 9, 8, seed=3)

    def test_is_the_op(self):
        layer = darkformer.Attention(4, 2, 8, "dark", features=16, window=2, seed=7, layer=3)
        draws = darkformer.draw_features(2, 16, 8, 7, 3, 0)
        want = darkformer.dark_attention(self.q, self.k, self.v, draws, torch.eye(8).repeat(2, 1, 1), window=2,
                                         model_near=True)
        self.assertTrue(torch.equal(layer(self.q, self.k, self.v), want))

    def test_extends_as_it_reads(self):
        for kind, options in (("dark", {"window": 2, "sinks": 1, "gate": True}), ("exact", {"sliding": 3}), ("exact", {}),
                              ("window", {"window": 3}), ("constant", {}), ("random", {}), ("lfk", {"features": 3})):
            layer = darkformer.Attention(4, 2, 8, kind, **options)
            whole, state, parts = layer(self.q, self.k, self.v), [], []
            for begin, end in ((0, 4), (4, 5), (5, 6), (6, 9)):
                parts.append(layer.extend(*(x[:, :, begin:end] for x in (self.q, self.k, self.v)), state))
            torch.testing.assert_close(torch.cat(parts, 2), whole, rtol=1e-4, atol=1e-5, msg=lambda text: f"{kind}: {text}")

    def test_redraw(self):
        layer = darkformer.Attention(4, 2, 8)
        before = layer.draws.clone()
        layer.redraw(1)
        self.assertFalse(torch.equal(layer.draws, before))
        layer.redraw(0)
        self.assertTrue(torch.equal(layer.draws, before))

    def test_what_is_learned(self):
        learned = {kind: [name for name, _ in darkformer.Attention(4, 2, 8, kind).named_parameters()]
                   for kind in ("dark", "performer", "lfk", "exact")}
        self.assertEqual(learned, {"dark": ["factor"], "performer": [], "lfk": ["draws"], "exact": []})

    def test_wrong_options(self):
        for options, words in (({"attention": "dork"}, "wanted one of"), ({"rank": 9}, "1 to 8"), ({"gate": True}, "window"),
                               ({"feature": 3}, "unknown option feature"), ({"attention": "performer", "rank": 4}, "no factor"),
                               ({"attention": "exact", "window": 3}, "no options")):
            with self.assertRaisesRegex(ValueError, words):
                darkformer.Attention(4, 2, 8, **options)


if __name__ == "__main__":
    unittest.main()
