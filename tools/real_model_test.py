"""real_model: a tiny llama2.c file becomes the folder of the same model; broken input leaves nothing."""
import hashlib
import json
import math
import random
import struct
import unittest

from tool_testing import ToolTest

DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCABULARY, CONTEXT = 12, 10, 2, 2, 1, 262, 8
HEAD = DIM // HEADS
WORDS = ["▁", "▁a", "é"]  # the last pieces


def floats(count, draws):
    return [struct.unpack("<f", struct.pack("<f", draws.uniform(-1, 1)))[0] for _ in range(count)]


def llama2c_weights():
    """(the bytes of a model file, {kind: its values}), in the order of llama2.c's export."""
    draws = random.Random(1)
    sizes = {"embedding": VOCABULARY * DIM, "attention_norm": LAYERS * DIM, "q": LAYERS * DIM * DIM, "k": LAYERS * KV_HEADS * HEAD * DIM,
             "v": LAYERS * KV_HEADS * HEAD * DIM, "o": LAYERS * DIM * DIM, "ffn_norm": LAYERS * DIM, "w1": LAYERS * HIDDEN * DIM,
             "w2": LAYERS * DIM * HIDDEN, "w3": LAYERS * HIDDEN * DIM, "norm": DIM, "tables": CONTEXT * HEAD}
    values = {kind: floats(size, draws) for kind, size in sizes.items()}
    data = struct.pack("<7i", DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, VOCABULARY, CONTEXT)
    return data + b"".join(struct.pack(f"<{len(v)}f", *v) for v in values.values()), values


def llama2c_words():
    words = ["<unk>", "\n<s>\n", "\n</s>\n", *map(chr, range(256)), *(word.replace("▁", " ") for word in WORDS)]
    data = struct.pack("<i", 7)
    for number, word in enumerate(words):
        word = word.encode()
        data += struct.pack("<fi", -number / 4, len(word)) + word
    return data


def read_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__")
    body = data[8 + length:]
    return {name: (about["shape"], list(struct.unpack(f"<{(b - a) // 4}f", body[a:b])))
            for name, about in header.items() for a, b in [about["data_offsets"]]}


def read_fields(data):
    """[(number, value)] of a message of the protocol buffers."""
    fields, at = [], 0

    def varint():
        nonlocal at
        value, shift = 0, 0
        while True:
            value |= (data[at] & 0x7F) << shift
            shift += 7
            at += 1
            if data[at - 1] < 0x80:
                return value

    while at < len(data):
        tag = varint()
        number, value = tag >> 3, varint() if tag & 7 != 5 else 4
        if tag & 7:
            value, at = data[at:at + value], at + value
        fields.append((number, value))
    return fields


def project(weight, x):
    """Rows of the weight times x, by head."""
    rows = [sum(w * v for w, v in zip(weight[i:i + DIM], x)) for i in range(0, len(weight), DIM)]
    return [rows[i:i + HEAD] for i in range(0, len(rows), HEAD)]


def turn(head, position, pairs):
    out = list(head)
    for i, (a, b) in enumerate(pairs):
        angle = position * 10000 ** (-2 * i / HEAD)
        out[a] = head[a] * math.cos(angle) - head[b] * math.sin(angle)
        out[b] = head[a] * math.sin(angle) + head[b] * math.cos(angle)
    return out


NEIGHBOURS = [(2 * i, 2 * i + 1) for i in range(HEAD // 2)]  # llama2.c
HALVES = [(i, i + HEAD // 2) for i in range(HEAD // 2)]  # Hugging Face


def scores(q, k, x, y, pairs):
    """q·k of every head, x at position 5 and y at position 2."""
    key = turn(project(k, y)[0], 2, pairs)
    return [sum(a * b for a, b in zip(turn(head, 5, pairs), key)) for head in project(q, x)]


class RealModel(ToolTest):
    def setUp(self):
        super().setUp()
        self.weights, self.values = llama2c_weights()
        self.words = llama2c_words()
        self.out = self.root / "models" / "tiny"

    def make(self, data=None):
        file = self.root / "package" / "src" / "llama2.data"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(self.weights + self.words if data is None else data)
        return self.run_tool("real_model", self.root / "package", self.out)

    def layer(self, kind, layer):
        size = len(self.values[kind]) // LAYERS
        return self.values[kind][layer * size:(layer + 1) * size]

    def test_weights_have_their_names_and_places(self):
        self.assertEqual(self.make(), (0, ""))
        tensors = read_safetensors(self.out / "model.safetensors")
        same = {"input_layernorm": ("attention_norm", [DIM]), "post_attention_layernorm": ("ffn_norm", [DIM]),
                "self_attn.v_proj": ("v", [KV_HEADS * HEAD, DIM]), "self_attn.o_proj": ("o", [DIM, DIM]),
                "mlp.gate_proj": ("w1", [HIDDEN, DIM]), "mlp.down_proj": ("w2", [DIM, HIDDEN]), "mlp.up_proj": ("w3", [HIDDEN, DIM])}
        for layer in range(LAYERS):
            for name, (kind, shape) in same.items():
                self.assertEqual(tensors.pop(f"model.layers.{layer}.{name}.weight"), (shape, self.layer(kind, layer)), name)
            for name, kind, rows in (("q_proj", "q", DIM), ("k_proj", "k", KV_HEADS * HEAD)):
                shape, rotated = tensors.pop(f"model.layers.{layer}.self_attn.{name}.weight")
                self.assertEqual(shape, [rows, DIM])
                self.assertEqual(sorted(rotated), sorted(self.layer(kind, layer)))
        self.assertEqual(tensors.pop("model.embed_tokens.weight"), ([VOCABULARY, DIM], self.values["embedding"]))
        self.assertEqual(tensors.pop("model.norm.weight"), ([DIM], self.values["norm"]))
        self.assertEqual(tensors, {})

    def test_rotated_by_halves_the_attention_is_that_of_neighbours(self):
        self.make()
        tensors = read_safetensors(self.out / "model.safetensors")
        x, y = floats(DIM, random.Random(2)), floats(DIM, random.Random(3))
        for layer in range(LAYERS):
            got = [tensors[f"model.layers.{layer}.self_attn.{name}.weight"][1] for name in ("q_proj", "k_proj")]
            want = scores(self.layer("q", layer), self.layer("k", layer), x, y, NEIGHBOURS)
            for a, b in zip(scores(*got, x, y, HALVES), want, strict=True):
                self.assertAlmostEqual(a, b, places=12)

    def test_config_and_vocabulary(self):
        self.make()
        config = json.loads((self.out / "config.json").read_text())
        for key, value in {"model_type": "llama", "hidden_size": DIM, "intermediate_size": HIDDEN, "num_hidden_layers": LAYERS,
                           "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD, "vocab_size": VOCABULARY,
                           "max_position_embeddings": CONTEXT, "tie_word_embeddings": True, "rms_norm_eps": 1e-5}.items():
            self.assertEqual(config[key], value, key)
        fields = read_fields((self.out / "tokenizer.model").read_bytes())
        pieces = [dict(read_fields(value)) for number, value in fields if number == 1]
        texts = [piece[1].decode() for piece in pieces]
        self.assertEqual(texts, ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *WORDS])
        self.assertEqual([piece[3] for piece in pieces], [2, 3, 3] + [6] * 256 + [1] * len(WORDS))
        self.assertEqual([struct.unpack("<f", piece[2])[0] for piece in pieces], [-number / 4 for number in range(VOCABULARY)])
        trainer, normalizer = (dict(read_fields(value)) for number, value in fields if number in (2, 3))
        self.assertEqual([trainer[number] for number in (3, 35, 40, 41, 42)], [2, 1, 0, 1, 2])
        self.assertEqual(normalizer, {1: b"identity", 2: b"", 3: 1, 4: 0, 5: 1})

    def test_the_card_knows_the_bytes(self):
        self.make()
        text = (self.out / "README.md").read_text()
        for data in (self.weights, self.words, *(f.read_bytes() for f in self.out.iterdir() if f.name != "README.md")):
            self.assertIn(hashlib.sha256(data).hexdigest(), text)

    def test_a_second_call_does_nothing(self):
        self.make()
        (self.out / "config.json").write_text("mine")
        self.assertEqual(self.make(b"broken"), (0, ""))
        self.assertEqual((self.out / "config.json").read_text(), "mine")

    def test_broken_input_is_one_line_and_no_folder(self):
        header = struct.unpack("<7i", self.weights[:28])
        whole = self.weights + self.words
        broken = {
            "cut short": [b"", whole[:20], whole[:28], whole[:len(self.weights) - 1], whole[:-1], whole[:len(self.weights) + 9]],
            "not a llama2.c model": [struct.pack("<7i", *header[:5], -header[5], header[6]) + whole[28:], b"\0" * len(whole), b"PK" * 99],
            "do not fit": [struct.pack("<7i", DIM, HIDDEN, LAYERS, 5, 5, VOCABULARY, CONTEXT) + whole[28:]],
            "not Llama 2's": [self.weights + self.words.replace(b"\1\0\0\0A", b"\1\0\0\0B"), whole.replace(b"<unk>", b"<pad>")],
            "not UTF-8": [self.weights + self.words[:-2] + b"\xff\xff"],
            "the longest": [self.weights + struct.pack("<i", 3) + self.words[4:]],
        }
        for message, files in broken.items():
            for data in files:
                code, text = self.make(data)
                self.assertEqual((code, text.count("\n")), (1, 1), text)
                self.assertIn(message, text)
                self.assertTrue(text.startswith("real_model: "), text)
                self.assertFalse(self.out.parent.exists() and list(self.out.parent.iterdir()))

    def test_no_package(self):
        code, text = self.run_tool("real_model", self.root / "nothing", self.out)
        self.assertEqual(code, 1)
        self.assertRegex(text, r"^real_model: .*llama2.data: No such file or directory\n$")


if __name__ == "__main__":
    unittest.main()
