"""config.json of Gemma 1, 2 and 3 (text), plain or converted, in all the spellings Hugging Face has used."""
# SPDX-License-Identifier: Apache-2.0
import dataclasses
import json
from pathlib import Path

from .attention_spec import AttentionSpec

FORMAT_VERSION = 1
CONVERTED = "DarkGemmaForCausalLM"
_SLIDING, _FULL = "sliding_attention", "full_attention"
_FAMILIES = {"gemma": 1, "gemma2": 2, "gemma3_text": 3, "gemma3": 3}

# What config.json may leave out: the values of the classes in Hugging Face's transformers.
_DEFAULTS = {
    1: {"vocab_size": 256000, "hidden_size": 3072, "intermediate_size": 24576, "num_hidden_layers": 28,
        "num_attention_heads": 16, "num_key_value_heads": 16},
    2: {"vocab_size": 256000, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
        "num_attention_heads": 8, "num_key_value_heads": 4, "sliding_window": 4096},
    3: {"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
        "num_attention_heads": 8, "num_key_value_heads": 4, "sliding_window": 4096},
}


@dataclasses.dataclass
class GemmaConfig:
    """The shape of a Gemma and of its conversion. `document` is config.json as it was read."""
    family: int
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    rms_norm_eps: float
    scale: float                 # of the scores
    attn_softcap: float          # 0: none
    final_softcap: float
    sliding_window: int
    sliding: list                # for each layer: does it see a sliding window only?
    rope_full: tuple             # (base, factor): a pair turns by position / factor * base^(-2i/D)
    rope_sliding: tuple
    attention: list              # an AttentionSpec for each layer
    architectures: list          # of the unconverted model
    seed: int = 0                # of the draws
    draw_index: int = 0
    document: dict = dataclasses.field(default_factory=dict, repr=False)

    def converted(self):
        """Is any layer not exact?"""
        return any(spec.attention != "exact" for spec in self.attention)

    def to_json(self):
        """config.json of this model: the document it came from, with the conversion as it is now."""
        document = {key: value for key, value in self.document.items() if key != "darkformer"}
        document["architectures"] = [CONVERTED] if self.converted() else self.architectures
        if self.converted():
            document["darkformer"] = {
                "format_version": FORMAT_VERSION, "base_architectures": self.architectures,
                "layers": [spec.to_json() for spec in self.attention], "seed": self.seed,
                "draw_index": self.draw_index}
        return document


class _Reader:
    """Reads one document; every error names the source and the field."""

    def __init__(self, document, source):
        self.source = source
        self.require(isinstance(document, dict), "must be a JSON object")
        self.document = document
        kind = document.get("model_type")
        self.require(kind in _FAMILIES, f"\"model_type\" is {kind}; wanted {', '.join(_FAMILIES)}")
        self.family = _FAMILIES[kind]
        self.text = document.get("text_config") or {} if kind == "gemma3" else document
        self.require(isinstance(self.text, dict), "\"text_config\" must be an object")

    def require(self, good, text):
        if not good:
            raise ValueError(f"{self.source}: {text}")

    def outer(self, key, fallback=None):
        """Of keys that newer files keep outside text_config."""
        value = self.document.get(key, self.text.get(key))
        return fallback if value is None else value

    def number(self, key, fallback=None):
        value = self.text.get(key)
        if value is None:
            value = fallback
        good = isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
        self.require(good, f"\"{key}\" is {value}; wanted a number above 0")
        return value

    def size(self, key):
        value = self.number(key, _DEFAULTS[self.family].get(key, 256))
        self.require(isinstance(value, int), f"\"{key}\" is {value}; wanted a whole number")
        return value

    def softcap(self, key, fallback):
        """Here null is not the same as missing: it switches the cap off."""
        if self.family == 1 or (key in self.text and self.text[key] is None):
            return 0.0
        return float(self.text.get(key, fallback if self.family == 2 else 0.0))

    def refuse_unsupported(self):
        self.require(self.outer("use_bidirectional_attention", False) in (False, "vision"),
                     "\"use_bidirectional_attention\" is set; only causal models work")
        self.require(not self.text.get("attention_bias"), "\"attention_bias\" is true; no Gemma has it")
        self.require(self.outer("tie_word_embeddings", True),
                     "\"tie_word_embeddings\" is false; Gemma's head is its embedding")
        activation = self.text.get("hidden_activation") or "gelu_pytorch_tanh"
        self.require(activation == "gelu_pytorch_tanh" or (activation == "gelu" and self.family == 1),
                     f"\"hidden_activation\" is {activation}; wanted gelu_pytorch_tanh")

    def sliding(self, layers):
        """Which layers slide: those that layer_types names, else all but every n-th; none in Gemma 1."""
        if self.family == 1:
            return [False] * layers
        names = self.text.get("layer_types")
        if names:
            self.require(len(names) == layers and set(names) <= {_SLIDING, _FULL},
                         f"\"layer_types\" must be {layers} times {_SLIDING} or {_FULL}")
            return [name == _SLIDING for name in names]
        pattern = 2
        if self.family == 3:
            pattern = self.text.get("sliding_window_pattern") or self.text.get("_sliding_window_pattern") or 6
        return [(layer + 1) % pattern != 0 for layer in range(layers)]

    def rope_from(self, entry, rope):
        kind = entry.get("rope_type") or entry.get("type") or "default"
        self.require(kind in ("linear", "default"), f"rope_type is {kind}; wanted linear or default")
        self.require(kind == "default" or "factor" in entry, "linear rope needs a \"factor\"")
        return float(entry.get("rope_theta") or rope[0]), float(entry["factor"] if kind == "linear" else 1)

    def ropes(self):
        """(base, factor) of full and of sliding layers."""
        full = (float(self.number("rope_theta", 1e6 if self.family == 3 else 1e4)), 1.0)
        sliding = (float(self.number("rope_local_base_freq", 1e4)), 1.0)
        if isinstance(self.text.get("rope_scaling"), dict):
            full = self.rope_from(self.text["rope_scaling"], full)
        both = self.text.get("rope_parameters")
        if isinstance(both, dict):
            nested = isinstance(both.get(_FULL), dict) or isinstance(both.get(_SLIDING), dict)
            full = self.rope_from((both.get(_FULL) or {"rope_theta": full[0]}) if nested else both, full)
            sliding = self.rope_from(both.get(_SLIDING) or {}, sliding)
        return full, sliding if self.family == 3 else full

    def read(self):
        self.refuse_unsupported()
        layers, head_dim = self.size("num_hidden_layers"), self.size("head_dim")
        full, sliding = self.ropes()
        pre = head_dim if self.family == 1 else self.number("query_pre_attn_scalar", 256)
        config = GemmaConfig(
            family=self.family, vocab_size=self.size("vocab_size"), hidden_size=self.size("hidden_size"),
            intermediate_size=self.size("intermediate_size"), layers=layers,
            heads=self.size("num_attention_heads"), kv_heads=self.size("num_key_value_heads"), head_dim=head_dim,
            rms_norm_eps=float(self.number("rms_norm_eps", 1e-6)), scale=pre ** -0.5,
            attn_softcap=self.softcap("attn_logit_softcapping", 50.0),
            final_softcap=self.softcap("final_logit_softcapping", 30.0),
            sliding_window=0 if self.family == 1 else self.size("sliding_window"), sliding=self.sliding(layers),
            rope_full=full, rope_sliding=sliding, attention=[AttentionSpec()] * layers,
            architectures=self.document.get("architectures") or [
                {1: "GemmaForCausalLM", 2: "Gemma2ForCausalLM", 3: "Gemma3ForCausalLM"}[self.family]],
            document=self.document)
        self.require(config.heads % config.kv_heads == 0, f"\"num_attention_heads\" is {config.heads}, no multiple of "
                                                          f"\"num_key_value_heads\", {config.kv_heads}")
        self.require(head_dim % 2 == 0, f"\"head_dim\" is {head_dim}; it must be even to be rotated")
        self.read_conversion(config)
        return config

    def read_conversion(self, config):
        section = self.document.get("darkformer")
        if section is None:
            self.require(CONVERTED not in config.architectures,
                         f"the architecture is {CONVERTED}, but there is no \"darkformer\" section")
            return
        self.require(isinstance(section, dict), "darkformer: must be an object")
        version = section.get("format_version")
        self.require(version == FORMAT_VERSION,
                     f"darkformer: format_version is {version}; this package reads {FORMAT_VERSION}")
        entries = section.get("layers")
        self.require(isinstance(entries, list) and len(entries) == config.layers,
                     f"darkformer: \"layers\" must be a list of {config.layers}")
        self.require(section.get("base_architectures"), "darkformer: \"base_architectures\" is missing")
        config.attention = [AttentionSpec.from_json(entry, config.head_dim, f"{self.source}: darkformer.layers[{i}]")
                            for i, entry in enumerate(entries)]
        config.architectures = section["base_architectures"]
        config.seed, config.draw_index = section.get("seed", 0), section.get("draw_index", 0)


def parse_gemma_config(document, source="config.json"):
    """The config of a parsed config.json. ValueError, naming source and field: what we do not have, or wrong."""
    return _Reader(document, source).read()


def read_gemma_config(path):
    """The config of a file."""
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: no JSON: {error}") from None
    return parse_gemma_config(document, str(path))
