"""The op library from Python, as Debian's python3-torch loads it: schemas, gradcheck, states, errors."""
# SPDX-License-Identifier: Apache-2.0
import os
import unittest

import torch

torch.ops.load_library(os.environ["DARKFORMER_OPS"])
ops = torch.ops.darkformer


def problem(dtype=torch.float64, heads=4, kv_heads=2, time=6, size=4, features=5, rank=3):
    generator = torch.Generator().manual_seed(1)

    def normal(*shape, spread=0.7):
        return (spread * torch.randn(*shape, generator=generator, dtype=torch.float64)).to(dtype).requires_grad_()

    return {
        "q": normal(1, heads, time, size), "k": normal(1, kv_heads, time, size), "v": normal(1, kv_heads, time, size),
        "draws": normal(kv_heads, features, rank, spread=1.0), "factor": normal(kv_heads, rank, size),
        "key_factor": normal(kv_heads, rank, size), "log_weights": normal(kv_heads, features),
        "query_center": normal(kv_heads, size), "key_center": normal(kv_heads, size), "gate": normal(heads, 2),
    }


class Gradcheck(unittest.TestCase):
    """torch.autograd.gradcheck on the float64 composition: finite differences of every argument."""

    def check(self, names, **options):
        p = problem()
        inputs = [p[name] for name in names]

        def call(*tensors):
            given = dict(zip(names, tensors))
            first = [given.pop(name) for name in ("q", "k", "v", "draws")]
            factor = given.pop("factor", None)
            return ops.dark_attention(*first, factor, **given, **options)

        self.assertTrue(torch.autograd.gradcheck(call, inputs))

    def test_factor(self):
        self.check(["q", "k", "v", "draws", "factor"])

    def test_everything(self):
        self.check(list(problem()), window=2, sinks=1)
        self.check(list(problem()), window=2, sinks=1, model_near=True)
        self.check(list(problem()), window=2, sinks=1, far_all=True)

    def test_softmax_features(self):
        p = problem()
        heads, size = p["k"].shape[1], p["k"].shape[3]
        names = ["q", "k", "v", "gate"]
        maps = [torch.randn(heads, 3, size, dtype=torch.float64, requires_grad=True) for _ in range(2)]

        def call(factor, key_factor, *tensors):
            q, k, v, gate = tensors
            return ops.dark_attention(q, k, v, q.new_empty(heads, 0, size), factor, key_factor=key_factor, gate=gate,
                                      window=2, softmax_features=True)

        self.assertTrue(torch.autograd.gradcheck(call, [*maps, *(p[name] for name in names)]))

    def test_centres_and_weights(self):
        self.check(["q", "k", "v", "draws", "factor", "log_weights", "query_center", "key_center"])

    def test_not_causal(self):
        self.check(["q", "k", "v", "draws", "factor"], causal=False)

    def test_exact(self):
        p = problem()
        for options in ({}, {"window": 2}, {"softcap": 2.0}, {"causal": False}):
            self.assertTrue(torch.autograd.gradcheck(
                lambda q, k, v: ops.exact_attention(q, k, v, **options), [p["q"], p["k"], p["v"]]))


class Numbers(unittest.TestCase):
    def test_kernels_equal_the_composition(self):
        p = problem(torch.float32, time=50)
        out = ops.dark_attention(p["q"], p["k"], p["v"], p["draws"], p["factor"], window=5, gate=p["gate"])
        kernels = torch.autograd.grad(out.square().sum(), [p["q"], p["factor"], p["gate"]])
        ops.force_composition(True)
        other = ops.dark_attention(p["q"], p["k"], p["v"], p["draws"], p["factor"], window=5, gate=p["gate"])
        composed = torch.autograd.grad(other.square().sum(), [p["q"], p["factor"], p["gate"]])
        ops.force_composition(False)
        torch.testing.assert_close(out, other, rtol=1e-4, atol=1e-5)
        for a, b in zip(kernels, composed):
            torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)

    def test_exact_equals_softmax(self):
        p = problem(torch.float32, time=70, size=8, rank=8)
        q, k, v = p["q"], p["k"].repeat_interleave(2, 1), p["v"].repeat_interleave(2, 1)
        scores = q @ k.transpose(-1, -2) * 8 ** -0.5
        mask = torch.ones(70, 70, dtype=torch.bool).tril()
        want = torch.softmax(scores.masked_fill(~mask, -float("inf")), -1) @ v
        torch.testing.assert_close(ops.exact_attention(q, p["k"], p["v"]), want, rtol=1e-5, atol=1e-6)

    def test_prefill_and_steps(self):
        p = {name: tensor.detach() for name, tensor in problem(torch.float32, time=12).items()}
        near = {"window": 3, "sinks": 1}
        for options in (near, {**near, "model_near": True}, {**near, "far_all": True}):
            self.read_in_parts(p, options)

    def read_in_parts(self, p, options):
        """A prompt, then token by token, is all tokens at once."""
        whole = ops.dark_attention(p["q"], p["k"], p["v"], p["draws"], p["factor"], **options)

        def part(a, b):
            return p["q"][:, :, a:b], p["k"][:, :, a:b], p["v"][:, :, a:b], p["draws"], p["factor"]

        out, state = ops.dark_attention_prefill(*part(0, 5), **options, state=[])
        outputs = [out]
        for t in range(5, 12):
            outputs.append(ops.dark_attention_step(*part(t, t + 1), **options, state=state))
        self.assertEqual(int(state[3]), 12)
        torch.testing.assert_close(torch.cat(outputs, 2), whole, rtol=1e-4, atol=1e-5)

    def test_what_surrounds_attention(self):
        """linear, rms_norm, geglu and rotary on kernels and in plain PyTorch: values and gradients."""
        generator = torch.Generator().manual_seed(2)
        def normal(*shape):
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        def turned(x, base=100.0, factor=2.0, start=3):
            half = x.shape[-1] // 2
            rates = base ** (-torch.arange(half, dtype=x.dtype) / half) / factor
            angles = torch.outer(torch.arange(start, start + x.shape[2], dtype=x.dtype), rates)
            a, b = x[..., :half], x[..., half:]
            return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)

        for name, op, plain, inputs in (
                ("linear", ops.linear, torch.nn.functional.linear, [normal(2, 5, 12), normal(7, 12)]),
                ("rms_norm", lambda x, w: ops.rms_norm(x, w, 1e-6),
                 lambda x, w: x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * (1 + w), [normal(2, 5, 12), normal(12)]),
                ("geglu", ops.geglu, lambda g, u: torch.nn.functional.gelu(g, approximate="tanh") * u, [normal(3, 9), normal(3, 9)]),
                ("rotary", lambda x: ops.rotary(x, 100.0, 2.0, 3), turned, [normal(1, 2, 600, 8)])):
            results = []
            for dtype, function in ((torch.float32, op), (torch.float64, plain)):
                leaves = [x.to(dtype).requires_grad_() for x in inputs]
                out = function(*leaves)
                (out * out.detach().cos()).sum().backward()
                results.append([out.detach().double(), *(leaf.grad.double() for leaf in leaves)])
            for got, want in zip(*results):
                self.assertLess(float((got - want).abs().max()), 1e-5 * (1 + float(want.abs().max())), name)
        with self.assertRaisesRegex(RuntimeError, r"rotary: x is .* and starts at -1"):
            ops.rotary(torch.zeros(1, 1, 2, 4), 100.0, 1.0, -1)

    def test_draws(self):
        a = ops.draw_features(2, 9, 4, 7, 3, 0)
        self.assertEqual(a.shape, (2, 9, 4))
        self.assertTrue(torch.equal(a, ops.draw_features(2, 9, 4, 7, 3, 0)))
        self.assertFalse(torch.equal(a, ops.draw_features(2, 9, 4, 7, 3, 1)))
        self.assertAlmostEqual(float(a[0, 0] @ a[0, 1]), 0.0, places=5)

    def test_bfloat16(self):
        p = problem(torch.float32, time=20)
        q, k, v = (p[name].detach().bfloat16().requires_grad_() for name in "qkv")
        out = ops.dark_attention(q, k, v, p["draws"], p["factor"])
        self.assertEqual(out.dtype, torch.bfloat16)
        out.float().sum().backward()
        self.assertEqual(q.grad.dtype, torch.bfloat16)


class Errors(unittest.TestCase):
    def test_one_line(self):
        p = problem(torch.float32)
        with self.assertRaises(RuntimeError) as caught:
            ops.dark_attention(p["q"], p["k"], p["v"], p["draws"][:, :0], p["factor"])
        self.assertEqual(str(caught.exception).count("\n"), 0)
        self.assertIn("at least one feature", str(caught.exception))

    def test_second_derivatives_are_refused(self):
        p = problem(torch.float32)
        for out in (ops.dark_attention(p["q"], p["k"], p["v"], p["draws"], p["factor"]), ops.exact_attention(p["q"], p["k"], p["v"])):
            with self.assertRaises(RuntimeError) as caught:
                torch.autograd.grad(out.sum(), p["q"], create_graph=True)
            self.assertIn("second derivative", str(caught.exception))

    def test_meta(self):
        p = {name: tensor.detach().to("meta") for name, tensor in problem(torch.float32, time=7).items()}
        inputs = [p["q"], p["k"], p["v"], p["draws"], p["factor"]]
        self.assertEqual(ops.dark_attention(*inputs, window=2).shape, p["q"].shape)
        self.assertEqual(ops.exact_attention(*inputs[:3]).shape, p["q"].shape)
        for op in (ops.dark_attention_prefill, ops.dark_attention_step):
            with self.assertRaises(RuntimeError) as caught:
                op(*inputs, state=[])
            self.assertEqual(str(caught.exception).count("\n"), 0)
            self.assertIn("meta", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
