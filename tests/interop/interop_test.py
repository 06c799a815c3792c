"""Hugging Face's own libraries as second judges: the folders we write, and the tokenizer.json we read.

Python's transformers is no Debian package; their JavaScript libraries read the same files and come from the npm registry.
"""
# SPDX-License-Identifier: Apache-2.0
import functools
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.environ["DARKFORMER"]
RANDOM_MODEL = os.environ["RANDOM_MODEL"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
HERE = pathlib.Path(__file__).resolve().parent
MODULES = ROOT / "build" / "npm" / "node_modules"  # where node looks for what a package needs
FAMILIES = ("gemma1", "gemma2", "gemma3")
NOT_RUN = 77  # what CTest takes for "skipped"

# The libraries and what they need; all plain JavaScript (hub and its needs: MIT, tokenizers: Apache-2.0).
PACKAGES = {
    "@huggingface/hub@2.17.5": "15b4b7f48b7e0be2b9175d23c9a340236c2631a2e93aef8a3743a6f32717734b"
                               "a6fd1222b313b213fe5e4ea3c42f2f5b008f0965d190dbd9d9633719797cef16",
    "@huggingface/xetchunk-wasm@0.2.0": "726a7ba00016782a591ab5504cffcbc43b4977318c7e9c7090456c66c9398d94"
                                        "361703f69e39bc2e7ca86e19d0bcba644807092705331490b43d84bd66ca9e4e",
    "@huggingface/blake3-jit@0.0.2": "06aec1e6a69bca3ac97e106c97ce49776401b5ff87cd10fb87b03d19f376973a"
                                     "ebb0006139ae5ebd53e0ce8093c51ed46f44058fb6032b5624611581536e7edb",
    "gearhash-jit@1.0.2": "521cc92f829749da8029ea72fed6709a2d91732d18326b620b80d04b8494442b"
                          "8859d87c10266d9d72b678f44c2e281f07ad6144a74b2bf5608366d2c3bde2cd",
    "@huggingface/tokenizers@0.2.0": "2e274c1ded45a5c4981f8bdc4a35e8a1d6b7e290b433c9b58260cebfb4908ba2"
                                     "2ffa26f5cd7ec9dec1c1082f7fdc53c2927da4d5be79167795a8c471aebf7da6",
}


def fetch_packages():
    """Fetches what is not there yet in the version we know; returns why that cannot be, or None."""
    if shutil.which("node") is None:
        return "the program node is missing (make packages installs it)"
    for package, sha512 in PACKAGES.items():
        name, version = package.rsplit("@", 1)
        about = MODULES / name / "package.json"
        if about.exists() and json.loads(about.read_text())["version"] == version:
            continue
        done = subprocess.run([ROOT / "tools" / "npm_package", package, sha512, MODULES / name], capture_output=True, text=True,
                              check=False)
        if done.returncode:
            if "checksum" in done.stderr:
                raise RuntimeError(done.stderr.strip())
            return done.stderr.strip()
    return None


def run(*arguments, **options):
    done = subprocess.run([str(word) for word in arguments], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{' '.join(map(str, arguments))}: {done.stderr}"
    return done.stdout


def node(script, *arguments, **options):
    return json.loads(run("node", HERE / script, *arguments, **options))


@functools.cache
def info_of(folder):
    return json.loads(run(PROGRAM, "info", folder, "--json").splitlines()[-1])


def gemma_tensors(config):
    """Names and shapes as Hugging Face's Gemma classes have them."""
    hidden, inner, size = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * size, config["num_key_value_heads"] * size
    of_layer = {"self_attn.q_proj": [queries, hidden], "self_attn.k_proj": [keys, hidden], "self_attn.v_proj": [keys, hidden],
                "self_attn.o_proj": [hidden, queries], "mlp.gate_proj": [inner, hidden], "mlp.up_proj": [inner, hidden],
                "mlp.down_proj": [hidden, inner], "input_layernorm": [hidden], "post_attention_layernorm": [hidden]}
    if config["model_type"] != "gemma":
        of_layer |= {"pre_feedforward_layernorm": [hidden], "post_feedforward_layernorm": [hidden]}
    if config["model_type"].startswith("gemma3"):
        of_layer |= {"self_attn.q_norm": [size], "self_attn.k_norm": [size]}
    tensors = {"model.embed_tokens.weight": [config["vocab_size"], hidden], "model.norm.weight": [hidden]}
    for layer in range(config["num_hidden_layers"]):
        tensors |= {f"model.layers.{layer}.{name}.weight": shape for name, shape in of_layer.items()}
    return tensors


def dark_tensors(config):
    """What docs/file_formats.md says converted layers add; here with one set of parameters for each key head."""
    heads, groups, size = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    tensors = {}
    for layer, spec in enumerate(config.get("darkformer", {}).get("layers", [])):
        if spec["attention"] == "exact":
            continue
        features, rank = spec["features"], spec["rank"]
        own = {"draws": [groups, features, rank], "factor": [groups, rank, size]}
        if spec.get("centre"):
            own |= {"query_center": [groups, size], "key_center": [groups, size]}
        if spec.get("gate"):
            own |= {"gate_scale": [heads], "gate_bias": [heads], "gate_weight": [heads, rank]}
        tensors |= {f"model.layers.{layer}.self_attn.dark.{name}": shape for name, shape in own.items()}
    return tensors


class Folders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.scratch.name)
        text = cls.root / "text.txt"
        text.write_text("Four more years of peace and work for all the people of these states.\n" * 60)
        model = ROOT / "models" / "gemma-tiny"
        dark = ("--attention", "dark", "--features", "32", "--centre", "--data", text, "--window", "8")
        run(PROGRAM, "convert", "--no-fit", model, *dark, "--out", cls.root / "dark")
        run(PROGRAM, "finetune", cls.root / "dark", "--data", text, "--cache", cls.root / "cache", "--context", "32", "--batch", "2",
            "--steps", "1", "--held-out", "0", "--quiet", "--out", cls.root / "run")
        cls.folders = {"embedded": model, "dark": cls.root / "dark", "finetuned": cls.root / "run" / "final"}
        for family in FAMILIES:
            cls.folders[family] = GOLDEN / family
            converted = cls.root / f"{family}-dark"
            run(PROGRAM, "convert", "--no-fit", GOLDEN / family, "--attention", "dark", "--window", "4", "--layers", "all", "--out", converted)
            cls.folders[f"{family} converted"] = converted
            shards = cls.root / f"{family}-shards"
            run(RANDOM_MODEL, GOLDEN / family / "config.json", shards, "100000")
            cls.folders[f"{family} in shards"] = shards
        found = node("read_folders.mjs", MODULES / "@huggingface" / "hub" / "dist" / "index.mjs", *cls.folders.values())
        cls.found = {name: found[str(folder)] for name, folder in cls.folders.items()}

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def each(self):
        for name, folder in self.folders.items():
            with self.subTest(folder=name):
                yield folder, self.found[name], json.loads((folder / "config.json").read_text())

    def test_names_shapes_and_types(self):
        for folder, found, config in self.each():
            base, dark = gemma_tensors(config), dark_tensors(config)
            self.assertEqual({name: tensor["shape"] for name, tensor in found["tensors"].items()}, base | dark)
            kinds = {name: tensor["dtype"] for name, tensor in found["tensors"].items()}
            # What was bfloat16 stays it; what a run trained in float32 is written as the model's config says.
            self.assertEqual({kinds[name] for name in base}, {{"bfloat16": "BF16", "float32": "F32"}[config["torch_dtype"]]})
            self.assertLessEqual({kinds[name] for name in dark}, {"F32"})
            self.assertEqual(bool(dark), info_of(folder)["converted"])

    def test_metadata(self):
        for _, found, _ in self.each():
            self.assertTrue(all(metadata == {"format": "pt"} for metadata in found["metadata"]), found["metadata"])

    def test_parameter_counts(self):
        names = {"BF16": "bfloat16", "F32": "float32"}
        for folder, found, _ in self.each():
            said = info_of(folder)
            self.assertEqual({names[kind]: count for kind, count in found["parameterCount"].items()}, said["weight_types"])
            self.assertEqual(sum(found["parameterCount"].values()), said["parameters"])

    def test_shards(self):
        for folder, found, _ in self.each():
            files = {file.name for file in folder.glob("model-*.safetensors")}
            self.assertEqual(found["sharded"], "shards" in folder.name)
            self.assertEqual(found["sharded"], len(files) > 1)
            if found["sharded"]:
                self.assertEqual({tensor["file"] for tensor in found["tensors"].values()}, files)
                self.assertEqual(found["index"]["weight_map"], {name: t["file"] for name, t in found["tensors"].items()})
                self.assertEqual(int(found["index"]["metadata"]["total_size"]), info_of(folder)["weight_bytes"])

    def test_another_class_is_named_where_attention_is_ours(self):
        for _, _, config in self.each():
            self.assertEqual(config["architectures"][0].startswith("DarkGemma"), "darkformer" in config)


def tokenizer_json(pieces):
    """A vocabulary in the form of Gemma's tokenizer.json; pieces (text, SentencePiece's type) by id, merges in the order of ids."""
    vocab = {text: number for number, (text, _) in enumerate(pieces)}
    added = [{"id": number, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": kind != 4} for number, (text, kind) in enumerate(pieces) if kind in (2, 3, 4)]
    pairs = [(text[:at], text[at:]) for text, kind in pieces if kind == 1 for at in range(1, len(text))]
    # Runs of one character are merged first, in this order; then pieces by id, the parts of one piece by theirs.
    merges = [(sign * left, sign * right) for left in range(30, 0, -1) for right in range(31 - left, 0, -1) for sign in "\n\u2581\t"]
    merges += sorted((pair for pair in pairs if set(pair) <= vocab.keys()),
                     key=lambda pair: (vocab["".join(pair)], vocab[pair[0]], vocab[pair[1]]))
    merges = [[left, right] for left, right in merges if {left, right, left + right} <= vocab.keys()]
    space = {"String": " "}
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
            "normalizer": {"type": "Replace", "pattern": space, "content": "\u2581"},
            "pre_tokenizer": {"type": "Split", "pattern": space, "behavior": "MergedWithPrevious", "invert": False},
            "post_processor": None,
            "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                                                         {"type": "ByteFallback"}, {"type": "Fuse"}]},
            "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                      "vocab": vocab, "merges": merges}}


def shard_documents(file):
    """The ids of each document of a token shard (docs/file_formats.md)."""
    data = file.read_bytes()
    width, = struct.unpack_from("<I", data, 12)
    tokens, documents = struct.unpack_from("<QQ", data, 32)
    ids = struct.unpack_from(f"<{tokens}{'H' if width == 2 else 'i'}", data, 128)
    table = (128 + tokens * width + 7) // 8 * 8
    ends = struct.unpack_from(f"<{2 * documents}Q", data, table)[::2]
    return [list(ids[begin:end]) for begin, end in zip((0, *ends), ends)]


class TokenizerJson(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.root = pathlib.Path(scratch.name)

    def our_ids(self, document, texts):
        """Through a model folder that has no other tokenizer: eval leaves the tokens of a text in its cache."""
        config = json.loads((GOLDEN / "gemma1" / "config.json").read_text())
        config["vocab_size"] = len(document["model"]["vocab"])
        (self.root / "config.json").write_text(json.dumps(config))
        folder = self.root / "model"
        run(RANDOM_MODEL, self.root / "config.json", folder)
        (folder / "tokenizer.json").write_text(json.dumps(document))
        (self.root / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
        with tempfile.TemporaryDirectory() as cache:
            run(PROGRAM, "eval", folder, "--data", self.root / "texts.jsonl", "--cache", cache, "--context", "64")
            shard, = pathlib.Path(cache).glob("*.tokens")
            return shard_documents(shard)

    def their_answer(self, document, texts):
        file = self.root / "tokenizer.json"
        file.write_text(json.dumps(document))
        library = MODULES / "@huggingface" / "tokenizers" / "dist" / "tokenizers.mjs"
        return node("tokenize.mjs", library, file, input=json.dumps(texts))

    def compare(self, golden):
        """Three judges of each text: Gemma's ids, Hugging Face's library and ours."""
        gemma_ids = [number for number, _, _ in golden["pieces"]]
        document = tokenizer_json([(text, kind) for _, text, kind in golden["pieces"]])
        cases = [case for case in golden["cases"] if case["text"]]
        texts = [case["text"] for case in cases]
        texts += self.mixtures(texts)
        ours, theirs = self.our_ids(document, texts), self.their_answer(document, texts)
        self.assertEqual(len(ours), len(texts))
        for case, row in zip(cases, ours):
            self.assertEqual([gemma_ids[number] for number in row], case["ids"], case["text"])
        for text, our, their, decoded in zip(texts, ours, theirs["ids"], theirs["decoded"]):
            if any(token in text for token in ("<pad>", "<eos>", "<bos>", "<unk>")):
                self.assertNotEqual(our, their, text)  # Hugging Face's takes such text for the token, SentencePiece for letters
            else:
                self.assertEqual(our, their, text)
                self.assertEqual(decoded, text.replace("\u2581", " "))

    @staticmethod
    def mixtures(texts):
        """New texts cut out of the known ones: every character has its pieces, and pieces meet in new ways."""
        chance = random.Random(3)
        def part(text):
            begin = chance.randrange(len(text))
            return text[begin:begin + chance.randrange(1, 12)]
        return ["".join(part(chance.choice(texts)) for _ in range(8)) for _ in range(300)]

    def test_golden_cases(self):
        for family in ("gemma2", "gemma3"):
            with self.subTest(family=family):
                self.compare(json.loads((GOLDEN / "tokenizer" / f"{family}.json").read_text()))


if __name__ == "__main__":
    reason = fetch_packages()
    if reason:
        print(f"interop_test: not run: {reason}")
        sys.exit(NOT_RUN)
    unittest.main()
