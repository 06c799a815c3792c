"""The Python package on model folders: the program's logits, states, training, what the program reads back, errors."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import torch

import darkformer

PROGRAM = os.environ["DARKFORMER"]
ROOT = Path(__file__).resolve().parent.parent.parent
GOLDEN = ROOT / "tests" / "golden"
FAMILIES = ("gemma1", "gemma2", "gemma3")
IDS = [2, 17, 44, 101, 9, 300, 12, 7, 7, 250, 81, 33, 41, 5, 499, 120, 77, 78, 79, 80]
NEAR = 1e-4   # absolute, on logits of order 10; the same bits of float32 weights where both run on one thread
GOLDEN_NEAR = 2e-4  # what the golden logits allow any float32 program: other orders of additions, amplified by the model


def program(*arguments):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"darkformer {' '.join(map(str, arguments))}: {done.stderr}")
    return done.stdout


def near_enough(case, got, want, name, near=NEAR):
    case.assertLess(float((got - want).abs().max()), near, name)


def perturb(attention):
    """Numbers other than those every conversion starts from, so that each of them matters."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, tensor in [*attention.named_parameters(), *attention.named_buffers()]:
            tensor.add_((0.1 if name == "draws" else 0.3) * torch.randn(tensor.shape, generator=generator))


class Folders(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.out = Path(self.scratch.name)

    def tearDown(self):
        self.scratch.cleanup()

    def program_logits(self, folder, *more):
        file = self.out / "logits.safetensors"
        program("logits", folder, "--ids", ",".join(map(str, IDS)), "--out", file, *more)
        return darkformer.read_safetensors(file)["logits"]

    @torch.no_grad()
    def compare(self, folder):
        model = darkformer.load_gemma(folder)
        logits = model(torch.tensor([IDS]))[0]
        near_enough(self, logits, self.program_logits(folder), folder)
        state, parts = darkformer.GemmaState(), []
        for begin, end in ((0, 7), (7, 8), (8, 9), (9, 15), (15, 20)):
            parts.append(model.extend(torch.tensor([IDS[begin:end]]), state))
        near_enough(self, torch.cat(parts, 1)[0], logits, f"{folder}, in parts", GOLDEN_NEAR)

    def test_plain_folders(self):
        for folder in (*(GOLDEN / family for family in FAMILIES), ROOT / "models" / "gemma-tiny"):
            with self.subTest(folder=folder.name):
                self.compare(folder)

    def test_golden_numbers(self):
        for family in FAMILIES:
            expected = darkformer.read_safetensors(GOLDEN / family / "expected.safetensors")
            facts = json.loads((GOLDEN / family / "golden.json").read_text())
            model = darkformer.load_gemma(GOLDEN / family)
            ids = expected["input_ids"]
            near_enough(self, model(ids), expected["logits"], family)
            loss = model.loss(ids)
            self.assertAlmostEqual(loss.item(), facts["loss"], delta=1e-5 * facts["loss"])
            loss.backward()
            for name, parameter in model.named_parameters():
                got, want = parameter.grad.flatten(), expected[f"gradient.{name}"]
                error = (got[::max(1, got.numel() // 128)] - want).abs().max()
                self.assertLess(float(error), 1e-3 * float(expected[f"gradient_max.{name}"]), f"{family} {name}")
            greedy = model.generate(torch.tensor([facts["greedy_prompt"]]), len(facts["greedy_ids"]))
            self.assertEqual(greedy[0].tolist(), facts["greedy_ids"])

    def readable(self, family):
        """A golden model with a tokenizer, and a text."""
        text, model = self.out / "text.txt", self.out / family
        text.write_text("Linear attention reads a long text in linear time. " * 40)
        shutil.copytree(GOLDEN / family, model)
        shutil.copyfile(GOLDEN / "gemma1" / "tokenizer.model", model / "tokenizer.model")
        return model, text

    def test_what_the_program_converted(self):
        for family in FAMILIES:
            model, text = self.readable(family)
            for number, options in enumerate((
                    ["dark", "--centre", "--data", text],
                    ["dark", "--centre", "--data", text, "--window", "4", "--sinks", "1", "--layers", "all"],
                    ["dark", "--rank", "5", "--window", "4", "--near", "factor"],
                    ["dark", "--window", "4", "--far-keys", "all"],
                    ["performer", "--features", "24", "--window", "3", "--no-gate"],
                    ["hedgehog", "--features", "12", "--window", "4"],
                    ["aderf", "--data", text],
                    ["sderf", "--data", text],
                    ["oprf", "--data", text],
                    ["window", "--window", "4"],
                    ["constant"],
                    ["random"],
                    ["lfk", "--placement", "query-head", "--iid"])):
                with self.subTest(family=family, options=options):
                    to = self.out / f"{family}-{number}"
                    program("convert", "--no-fit", model, "--attention", *options, "--out", to)
                    self.compare(to)

    @torch.no_grad()
    def test_same_bits_on_one_thread(self):
        """Float32 weights run the program's kernels in the program's order; others it multiplies block by block."""
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            for family in FAMILIES:
                model, text = self.readable(family)
                to = self.out / f"{family}-dark"
                program("convert", "--no-fit", model, "--attention", "dark", "--centre", "--data", text, "--window", "4", "--out", to)
                model = darkformer.load_gemma(to)
                in_float = self.out / f"{family}-float"
                darkformer.save_gemma(in_float, model)
                logits = model(torch.tensor([IDS]))[0]
                self.assertTrue(torch.equal(logits, self.program_logits(in_float, "--threads", "1")), family)
        finally:
            torch.set_num_threads(threads)

    def test_what_python_converted(self):
        """Every kind and placement with numbers of its own, saved here and read by the program."""
        for number, (family, options) in enumerate((
                ("gemma1", {"attention": "dark", "rank": 5, "window": 4, "gate": True, "centre": True}),
                ("gemma2", {"attention": "dark", "placement": "layer", "layers": [0, 1], "window": 2, "gate": True}),
                ("gemma3", {"attention": "dark", "placement": "query-head", "layers": [0, 5], "centre": True}),
                ("gemma1", {"attention": "dark", "rope": "before", "window": 3, "gate": True}),
                ("gemma1", {"attention": "dark", "rank": 5, "window": 3, "near_kernel": "factor"}),
                ("gemma2", {"attention": "dark", "window": 3, "gate": True, "far_keys": "all"}),
                ("gemma1", {"attention": "dark", "window": 3, "gate": True, "own_key_factor": True, "learned_draws": True}),
                ("gemma2", {"attention": "importance", "layers": [0, 1]}),
                ("gemma1", {"attention": "oprf", "placement": "query-head", "window": 2}),
                ("gemma2", {"attention": "aderf", "features": 7}),
                ("gemma2", {"attention": "hedgehog", "features": 10, "placement": "query-head"}),
                ("gemma1", {"attention": "hedgehog", "window": 3, "gate": True}),
                ("gemma3", {"attention": "sderf", "centre": True}),
                ("gemma2", {"attention": "constant"}),
                ("gemma1", {"attention": "window", "window": 3}),
                ("gemma2", {"attention": "window", "window": 5, "layers": [0, 1]}),
                ("gemma3", {"attention": "random"}))):
            with self.subTest(family=family, **options):
                model = darkformer.load_gemma(GOLDEN / family)
                for layer in model.set_attention(**options, seed=3):
                    perturb(model.model.layers[layer].self_attn.dark)
                folder = self.out / f"{number}-{family}-{options['attention']}"
                darkformer.save_gemma(folder, model, dtype=torch.bfloat16)
                self.compare(folder)

    def test_layers_that_are_not_there(self):
        model = darkformer.load_gemma(GOLDEN / "gemma1")
        before = list(model.config.attention)
        for layers in ([0, 7000], [-1], 3, "all", ["0"]):
            with self.assertRaisesRegex(ValueError, "set_attention: "):
                model.set_attention("dark", layers=layers)
            self.assertEqual(model.config.attention, before)

    def test_wrong_calls_say_what_was_wanted(self):
        model = darkformer.load_gemma(GOLDEN / "gemma1")
        other = darkformer.GemmaState(layers=[[]] * (model.config.layers + 1))
        ids = torch.tensor([IDS])
        for call, said in (
                (lambda: model(torch.tensor(IDS)), r"ids: wanted an integer tensor of \(sequences, tokens\), got torch.int64 \[20\]"),
                (lambda: model(ids.float()), "ids: wanted an integer tensor"),
                (lambda: model([IDS]), "got list"),
                (lambda: model(ids[:, :0]), "ids: no token"),
                (lambda: model(ids.clone().fill_(-1)), "there is no token -1"),
                (lambda: model(ids.clone().fill_(1 << 20)), "there is no token 1048576"),
                (lambda: model.extend(ids, other), "state: of a model with"),
                (lambda: model.generate(ids, -1), "generate: tokens -1"),
                (lambda: model.generate(ids, 1, temperature=-1.0), "temperature -1.0"),
                (lambda: darkformer.load_gemma(GOLDEN / "gemma1", torch.int8), "dtype is torch.int8"),
                (lambda: model.extend(ids, 5), "wanted a GemmaState, got int"),
                (lambda: model.set_attention("dark", seed=1.5), "seed is 1.5"),
                (lambda: model.set_attention("dark", seed=-1), "seed is -1"),
                (lambda: model.set_attention("dark", features=2.5), "\"features\" is 2.5; wanted int"),
                (lambda: model.set_attention("dark", window=True), "\"window\" is True; wanted int"),
                (lambda: model.set_attention("dark", window=4, gate="yes"), "\"gate\" is 'yes'; wanted bool"),
                (lambda: darkformer.save_gemma(self.out / "x", model, dtype=torch.int8), "dtype is torch.int8")):
            with self.assertRaisesRegex(ValueError, said):
                call()
        self.assertFalse(model.config.converted(), "what was refused changed something")
        with self.assertRaisesRegex(FileNotFoundError, "/nowhere"):
            darkformer.save_gemma(self.out / "x", model, companions="/nowhere")
        with self.assertRaisesRegex(OSError, "'/proc/new'"):
            darkformer.save_gemma("/proc/new", model)

    def test_half_types_leave_the_attention_wide(self):
        model = darkformer.load_gemma(GOLDEN / "gemma1")
        model.set_attention("dark", window=4, gate=True)
        ids = torch.tensor([IDS])
        with torch.no_grad():
            want = darkformer.load_gemma(GOLDEN / "gemma1", torch.bfloat16)
            want.set_attention("dark", window=4, gate=True)
            self.assertTrue(torch.equal(model.to(torch.bfloat16)(ids), want(ids)))
        self.assertEqual(model.model.layers[0].self_attn.dark.factor.dtype, torch.float32)
        self.assertEqual(model.model.layers[0].self_attn.q_proj.weight.dtype, torch.bfloat16)

    def test_same_draws_as_the_program(self):
        program("convert", "--no-fit", GOLDEN / "gemma1", "--attention", "dark", "--rank", "3", "--seed", "9", "--out", self.out / "p")
        model = darkformer.load_gemma(GOLDEN / "gemma1")
        model.set_attention("dark", rank=3, seed=9)
        stored = darkformer.load_gemma(self.out / "p").state_dict()
        for name, tensor in model.state_dict().items():
            self.assertTrue(torch.equal(tensor, stored[name]), name)
        ours, theirs = (json.dumps(m.config.to_json()["darkformer"]) for m in (model, darkformer.load_gemma(self.out / "p")))
        self.assertEqual(ours, theirs)

    def test_finetuning(self):
        """Training in Python what the program converted, and the program on the result."""
        program("convert", "--no-fit", GOLDEN / "gemma1", "--attention", "dark", "--out", self.out / "dark")
        model = darkformer.load_gemma(self.out / "dark")
        ids = torch.randint(3, 512, (4, 24), generator=torch.Generator().manual_seed(1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
        losses = []
        for _ in range(8):
            optimizer.zero_grad()
            loss = model.loss(ids)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        self.assertLess(losses[-1], 0.8 * losses[0], losses)
        self.assertGreater(float(model.model.layers[0].self_attn.dark.factor.grad.abs().max()), 0)
        darkformer.save_gemma(self.out / "trained", model, companions=GOLDEN / "gemma1")
        self.assertTrue((self.out / "trained" / "tokenizer.model").exists())
        self.compare(self.out / "trained")
        with self.assertRaisesRegex(FileExistsError, "exists already"):
            darkformer.save_gemma(self.out / "trained", model)

    @torch.no_grad()
    def test_float64(self):
        """The slow reference, which shares no kernel with float32."""
        for family in FAMILIES:
            logits = []
            for kind in (torch.float32, torch.float64):
                model = darkformer.load_gemma(GOLDEN / family, dtype=kind)
                for layer in model.set_attention("dark", window=3, gate=True, centre=True):
                    perturb(model.model.layers[layer].self_attn.dark)
                logits.append(model(torch.tensor([IDS])))
            self.assertEqual(logits[1].dtype, torch.float64)
            near_enough(self, logits[0].double(), logits[1], family, GOLDEN_NEAR)

    @torch.no_grad()
    def test_every_kind_in_every_type(self):
        for kind in ("dark", "lfk", "constant", "random"):
            want = None
            for dtype, near in ((torch.float64, 0), (torch.float32, GOLDEN_NEAR), (torch.bfloat16, 1.0)):
                model = darkformer.load_gemma(GOLDEN / "gemma1", dtype=dtype)
                model.set_attention(kind)
                logits = model(torch.tensor([IDS]))
                self.assertEqual(logits.dtype, dtype)
                want = logits if want is None else want
                self.assertLessEqual(float((logits.double() - want).abs().max()), near, (kind, dtype))

    def test_states_do_not_grow(self):
        model = darkformer.load_gemma(GOLDEN / "gemma1")
        model.set_attention("dark", window=3)
        state = darkformer.GemmaState()
        model.extend(torch.tensor([IDS]), state)
        before = state.bytes()
        model.generate(torch.tensor([[5]]), 30, state=state)
        self.assertEqual((state.position, state.bytes()), (50, before))

    def test_shards_and_multimodal_names(self):
        weights = darkformer.read_safetensors(GOLDEN / "gemma3" / "model.safetensors")
        named = {"language_model." + name: tensor for name, tensor in weights.items()}
        places = {name: f"model-{i % 2 + 1}.safetensors" for i, name in enumerate(named)}
        for shard in set(places.values()):
            part = {name: tensor for name, tensor in named.items() if places[name] == shard}
            darkformer.write_safetensors(self.out / shard, {**part, "vision_tower.x": torch.zeros(2)})
        (self.out / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
        text = json.loads((GOLDEN / "gemma3" / "config.json").read_text())
        (self.out / "config.json").write_text(json.dumps({"model_type": "gemma3", "text_config": text}))
        model = darkformer.load_gemma(self.out)
        expected = darkformer.read_safetensors(GOLDEN / "gemma3" / "expected.safetensors")
        with torch.no_grad():
            near_enough(self, model(expected["input_ids"]), expected["logits"], "shards")
        darkformer.save_gemma(self.out / "saved", model)
        self.assertIn("Gemma3ForCausalLM", (self.out / "saved" / "config.json").read_text())
        self.compare(self.out / "saved")

    def broken(self, change_config=None, change_weights=None, cut=0):
        folder = self.out / "broken"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(GOLDEN / "gemma1", folder)
        config, weights = folder / "config.json", folder / "model.safetensors"
        if change_config:
            document = json.loads(config.read_text())
            change_config(document)
            config.write_text(json.dumps(document))
        if change_weights:
            tensors = darkformer.read_safetensors(weights)
            change_weights(tensors)
            darkformer.write_safetensors(weights, tensors)
        if cut:
            weights.write_bytes(weights.read_bytes()[:-cut])
        with self.assertRaises(ValueError) as caught:
            darkformer.load_gemma(folder)
        self.assertEqual(str(caught.exception).count("\n"), 0)
        self.assertIn(str(folder), str(caught.exception))
        return str(caught.exception)

    def test_broken_folders(self):
        norm = "model.norm.weight"
        newer = {"format_version": 2, "base_architectures": ["x"], "layers": []}
        self.assertIn("missing (model.norm.weight)", self.broken(change_weights=lambda t: t.pop(norm)))
        self.assertIn("not of this model (x)", self.broken(change_weights=lambda t: t.update(x=torch.zeros(1))))
        self.assertIn("wanted [80]", self.broken(change_weights=lambda t: t.update({norm: torch.zeros(3)})))
        self.assertIn("not the embedding", self.broken(change_weights=lambda t: t.update(
            {"lm_head.weight": t["model.embed_tokens.weight"] + 1})))
        self.assertIn("tensor '", self.broken(cut=10))
        self.assertIn("cut short", self.broken(cut=(GOLDEN / "gemma1" / "model.safetensors").stat().st_size - 5))
        self.assertIn("llama", self.broken(change_config=lambda c: c.update(model_type="llama")))
        self.assertIn("format_version is 2", self.broken(change_config=lambda c: c.update(darkformer=newer)))
        self.assertIn("hidden_size", self.broken(change_config=lambda c: c.update(hidden_size=-1)))


if __name__ == "__main__":
    unittest.main()
