#!/usr/bin/env python3
"""make_models.py OUT [NAME ...]: the golden models that transformers computes.

Makes tiny random models of every family and variant that the program reads, and writes what Hugging
Face's transformers computes from them: float32, eager attention, CPU. README.md says what the files
hold. Needs transformers 5, PyTorch and safetensors (in Debian: python3-transformers, python3-torch,
python3-safetensors); neither the build nor the tests run it.

A model is only written when every part of it shows in the logits: each tensor, each variant of the
config, and each greedy choice by a margin.
"""
import dataclasses
import json
import os
import pathlib
import shutil
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, Gemma4ForConditionalGeneration

LENGTH = 24  # of the input
PROMPT, CONTINUED = 8, 16  # tokens of the greedy continuation
SPREAD = 0.3  # standard deviation of the weights
SHOWS = 0.02  # a change of the logits that no tolerance hides: 100 times that of the tests
NORM_EPS = 0.01  # large enough to be seen
MARGIN = 0.01  # between the best and the second best logit of each greedy choice


@dataclasses.dataclass
class Golden:
    """One folder. `unlike`: changes of the config that must show in the logits."""
    config: dict
    unlike: tuple = ()
    dtype: str = "float32"
    shard_size: str = "1GB"
    v4: dict | None = None  # what config_v4.json says otherwise; None drops the key


def rope(kind, theta=10000.0, **more):
    return {"rope_type": kind, "rope_theta": theta, **more}


PLAIN = {"rope_parameters": rope("default")}  # what a scaled rotation must differ from

LLAMA = {"model_type": "llama", "vocab_size": 67, "hidden_size": 20, "intermediate_size": 13, "num_hidden_layers": 3,
         "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "max_position_embeddings": 64,
         "rms_norm_eps": NORM_EPS, "bos_token_id": 1, "eos_token_id": 2}
MISTRAL = {**LLAMA, "model_type": "mistral", "vocab_size": 71, "num_attention_heads": 5, "num_key_value_heads": 1,
           "head_dim": None}
QWEN2 = {"model_type": "qwen2", "vocab_size": 73, "hidden_size": 24, "intermediate_size": 11, "num_hidden_layers": 3,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": NORM_EPS,
         "bos_token_id": 1, "eos_token_id": 2}
QWEN3 = {**QWEN2, "model_type": "qwen3", "vocab_size": 63, "hidden_size": 20, "head_dim": 8,
         "rope_parameters": rope("default", 1000000.0)}
GEMMA4 = {"model_type": "gemma4_text", "vocab_size": 67, "hidden_size": 20, "intermediate_size": 9,
          "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "global_head_dim": 16,
          "hidden_size_per_layer_input": 0, "sliding_window": 5, "max_position_embeddings": 64,
          "rms_norm_eps": NORM_EPS, "pad_token_id": 0, "eos_token_id": [1, 5], "bos_token_id": 2}
SLIDING, FULL = "sliding_attention", "full_attention"
WHOLE_ROTATION = {"rope_parameters": {SLIDING: rope("default"), FULL: rope("proportional", 1e6, partial_rotary_factor=1.0)}}
VISION = {"hidden_size": 8, "intermediate_size": 6, "num_hidden_layers": 1, "num_attention_heads": 2,
          "num_key_value_heads": 2, "head_dim": 4, "patch_size": 2, "position_embedding_size": 3}

MODELS = {
    "gemma4_ple": Golden(
        {**GEMMA4, "num_hidden_layers": 5, "layer_types": [SLIDING, FULL, SLIDING, SLIDING, FULL],
         "num_kv_shared_layers": 2, "use_double_wide_mlp": True, "num_key_value_heads": 1,
         "hidden_size_per_layer_input": 3, "vocab_size_per_layer_input": 69, "final_logit_softcapping": 30.0},
        unlike=(WHOLE_ROTATION, {"sliding_window": 6}, {"final_logit_softcapping": None})),
    "gemma4_keqv": Golden(
        {**GEMMA4, "num_hidden_layers": 4, "layer_types": [SLIDING, FULL, SLIDING, FULL], "attention_k_eq_v": True,
         "num_global_key_value_heads": 1, "final_logit_softcapping": 30.0,
         "rope_parameters": {SLIDING: rope("default", 300.0), FULL: rope("proportional", 50.0, partial_rotary_factor=0.25)}},
        unlike=({"rope_parameters": {SLIDING: rope("default"), FULL: rope("proportional", 50.0, partial_rotary_factor=0.25)}},
                {"rope_parameters": {SLIDING: rope("default", 300.0), FULL: rope("proportional", 1e6, partial_rotary_factor=0.25)}},
                {"sliding_window": 4}, {"final_logit_softcapping": None})),
    "gemma4_multimodal": Golden(
        {"model_type": "gemma4", "vision_config": VISION, "image_token_id": 60, "video_token_id": 61,
         "audio_token_id": 62, "boi_token_id": 63, "eoi_token_id": 64, "boa_token_id": 65, "eoa_token_index": 66,
         "text_config": {**GEMMA4, "num_hidden_layers": 3, "layer_types": [SLIDING, SLIDING, FULL],
                         "hidden_size_per_layer_input": 3, "vocab_size_per_layer_input": 67}}),
    "llama_tied": Golden(
        {**LLAMA, "hidden_size": 24, "head_dim": None, "num_key_value_heads": None, "tie_word_embeddings": True},
        v4={"head_dim": None, "num_key_value_heads": None, "attention_bias": None, "mlp_bias": None}),
    "llama3_rope": Golden(
        {**LLAMA, "head_dim": 10, "max_position_embeddings": 128, "eos_token_id": [2, 5],
         "rope_parameters": rope("llama3", 500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                 original_max_position_embeddings=32)},
        unlike=({"rope_parameters": rope("default", 500.0)}, {"rope_parameters": rope("linear", 500.0, factor=8.0)}),
        v4={}),
    "llama_bias": Golden({**LLAMA, "attention_bias": True, "mlp_bias": True}),
    "llama_linear": Golden({**LLAMA, "rope_parameters": rope("linear", factor=4.0)}, unlike=(PLAIN,),
                           v4={"rope_scaling": {"type": "linear", "factor": 4.0}}),
    "llama_dynamic": Golden(
        {**LLAMA, "max_position_embeddings": 13, "rope_parameters": rope("dynamic", 100.0, factor=2.0)},
        unlike=({"rope_parameters": rope("default", 100.0)}, {"max_position_embeddings": 12}), v4={}),
    "llama_yarn": Golden(
        {**LLAMA, "head_dim": 12, "num_attention_heads": 4, "num_key_value_heads": 1,
         "rope_parameters": rope("yarn", 100.0, factor=4.0, original_max_position_embeddings=16, beta_fast=2.0,
                                 beta_slow=0.25, attention_factor=0.8, truncate=False)},
        unlike=({"rope_parameters": rope("yarn", 100.0, factor=4.0, original_max_position_embeddings=16, beta_fast=2.0,
                                         beta_slow=0.25, attention_factor=0.8)},
                {"rope_parameters": rope("yarn", 100.0, factor=4.0, original_max_position_embeddings=16, beta_fast=2.0,
                                         beta_slow=0.25, truncate=False)},
                {"rope_parameters": rope("yarn", 100.0, factor=4.0, original_max_position_embeddings=16,
                                         attention_factor=0.8, truncate=False)}),
        v4={}),
    "mistral_window": Golden({**MISTRAL, "sliding_window": 5}, unlike=({"sliding_window": 4}, {"sliding_window": 6}),
                             v4={"head_dim": None}),
    "mistral_full": Golden({**MISTRAL, "sliding_window": None, "head_dim": 6, "num_key_value_heads": 5,
                            "rope_parameters": rope("default", 1000000.0)},
                           unlike=(PLAIN, {"sliding_window": 20}), v4={}),
    # As Qwen 2.5 ships it: a window is named, but not in use.
    "qwen2_tied": Golden({**QWEN2, "tie_word_embeddings": True},
                         v4={"layer_types": None, "sliding_window": 5, "max_window_layers": 2}),
    "qwen2_window": Golden({**QWEN2, "use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1},
                           unlike=({"layer_types": [FULL] * 3}, {"layer_types": [SLIDING, SLIDING, FULL]},
                                   {"sliding_window": 6}),
                           v4={"layer_types": None}),
    "qwen2_yarn": Golden(
        {**QWEN2, "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 64,
         "rope_parameters": rope("yarn", 100.0, factor=4.0, original_max_position_embeddings=32)},
        unlike=({"rope_parameters": rope("default", 100.0)},
                {"rope_parameters": rope("yarn", 100.0, factor=4.0, original_max_position_embeddings=64)},
                {"rope_parameters": rope("yarn", 100.0, factor=4.0, original_max_position_embeddings=32,
                                         attention_factor=1.0)}),
        v4={"layer_types": None,
            "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}}),
    "qwen3_untied": Golden({**QWEN3, "bos_token_id": None}, unlike=(PLAIN,), v4={"layer_types": None}),
    "llama_bf16": Golden({**LLAMA, "tie_word_embeddings": True}, dtype="bfloat16"),
    "qwen3_sharded": Golden({**QWEN3, "tie_word_embeddings": True, "attention_bias": True}, shard_size="15KB"),
}


def is_norm(name):
    return name.endswith("norm.weight")


def named_weights(model):
    """What a checkpoint stores, tied tensors once."""
    yield from model.named_parameters()
    yield from ((name, buffer) for name, buffer in model.named_buffers() if name.endswith("layer_scalar"))


@torch.no_grad()
def fill(model, seed):
    """Random everywhere: neither norms of 1 nor biases of 0."""
    draws = torch.Generator().manual_seed(seed)
    for name, weight in named_weights(model):
        if is_norm(name) or name.endswith("layer_scalar"):
            weight.uniform_(0.5, 1.5, generator=draws)
        else:
            weight.normal_(0.0, SPREAD, generator=draws)


def make_config(values):
    values = dict(values)
    return AutoConfig.for_model(values.pop("model_type"), **values)


def model_class(config):
    return Gemma4ForConditionalGeneration if config.model_type == "gemma4" else AutoModelForCausalLM


def new_model(config):
    kind = model_class(config)
    return (kind if kind is Gemma4ForConditionalGeneration else kind.from_config)(config)


def load(folder, **changes):
    config = AutoConfig.from_pretrained(folder)
    for key, value in changes.items():
        setattr(config, key, value)
    # Loaded anew for each use: dynamic rotation remembers the lengths it has seen.
    return model_class(config).from_pretrained(folder, config=config, dtype=torch.float32, attn_implementation="eager").eval()


def plain_name(name):
    """The name in a model of text alone."""
    return name.replace("model.language_model.", "model.")


def text_ids(config):
    """The ids that are neither special nor stand for pictures and sounds."""
    return range(6, getattr(config, "image_token_id", config.get_text_config().vocab_size))


def draw_ids(config, seed):
    """(2,LENGTH): the model's BOS first, then text."""
    allowed, bos = text_ids(config), config.get_text_config().bos_token_id
    ids = torch.randint(allowed.start, allowed.stop, (2, LENGTH), generator=torch.Generator().manual_seed(seed))
    if bos is not None:
        ids[:, 0] = bos
    return ids


@torch.no_grad()
def greedy(model, prompt, cached):
    """(ids, the smallest margin of a choice)"""
    ids, margins, past = prompt, [], None
    for _ in range(CONTINUED):
        if cached:
            out = model(ids if past is None else ids[:, -1:], past_key_values=past, use_cache=True)
            past = out.past_key_values
        else:
            out = model(ids, use_cache=False)
        best = out.logits[0, -1].topk(2)
        margins.append((best.values[0] - best.values[1]).item())
        ids = torch.cat([ids, best.indices[:1].view(1, 1)], 1)
    return ids[0, prompt.shape[1]:].tolist(), min(margins)


@torch.no_grad()
def logits_of(model, ids):
    return model(ids, use_cache=False).logits


def loss_and_gradients(model, ids):
    """The mean loss over the next tokens of ids[:, :-1], which is all that the model is given."""
    logits = model(ids[:, :-1], use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    gradients = {plain_name(name): p.grad for name, p in model.named_parameters() if "vision" not in name}
    return loss.item(), gradients


@torch.no_grad()
def hidden_parts(folder, golden, ids, logits):
    """The tensors and settings that could be read wrongly without being seen in the logits."""
    def shows(other):
        return (other - logits).abs().max() > SHOWS

    model = load(folder)
    for name, weight in named_weights(model):
        if "vision" in name:
            continue
        right = weight.clone()
        # Norms: with weight 1 + w as in Gemma 1 to 3; and not read at all.
        for wrong in (right + 1, torch.ones_like(right)) if is_norm(name) else (torch.zeros_like(right),):
            weight.copy_(wrong)
            if not shows(logits_of(model, ids)):
                yield name
        weight.copy_(right)
    text_alone = golden.config["model_type"] != "gemma4"
    for changes in (*golden.unlike, *([{"rms_norm_eps": 1e-6}] if text_alone else [])):
        if not shows(logits_of(load(folder, **changes), ids)):
            yield changes


def v4_config(config, changes):
    """The config of the same model as transformers 4 wrote it."""
    config = {**config, "torch_dtype": config["dtype"], "transformers_version": "4.46.0"}
    del config["dtype"]
    scaling = dict(config.pop("rope_parameters"))
    config["rope_theta"] = scaling.pop("rope_theta")
    config["rope_scaling"] = scaling if scaling["rope_type"] != "default" else None
    for key, value in changes.items():
        config[key] = value
        if value is None:
            del config[key]
    return config


def write_v4(folder, changes, ids, logits):
    config = v4_config(json.loads((folder / "config.json").read_text()), changes)
    (folder / "config_v4.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    with tempfile.TemporaryDirectory() as other:
        other = pathlib.Path(other)
        shutil.copy(folder / "config_v4.json", other / "config.json")
        shutil.copy(folder / "model.safetensors", other)
        assert torch.equal(logits_of(load(other), ids), logits), f"{folder.name}: config_v4.json is another model"


def write_expected(folder, ids, logits, gradients):
    tensors = {"input_ids": ids, "logits": logits}
    for name, gradient in gradients.items():
        flat = gradient.flatten()
        tensors["gradient." + name] = flat[::max(1, flat.numel() // 128)].clone()
        tensors["gradient_max." + name] = flat.abs().max()
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "expected.safetensors")


def make(folder, golden, seed):
    """Writes the folder; what is wrong with it, or nothing."""
    config = make_config(golden.config)
    model = new_model(config)
    fill(model, seed)
    model.to(getattr(torch, golden.dtype)).save_pretrained(folder, max_shard_size=golden.shard_size)

    ids = draw_ids(config, seed)
    logits = logits_of(load(folder), ids)
    continued, margin = greedy(load(folder), ids[:1, :PROMPT], cached=True)
    uncached, _ = greedy(load(folder), ids[:1, :PROMPT], cached=False)
    is_dynamic = "dynamic" in str(golden.config.get("rope_parameters"))
    if margin < MARGIN or len(set(continued)) < 6 or not set(continued) <= set(text_ids(config)):
        return "greedy continuation"
    if (continued == uncached) == is_dynamic:
        return "greedy continuation without a cache"
    if hidden := list(hidden_parts(folder, golden, ids, logits)):
        return f"hidden: {hidden}"
    loss, gradients = loss_and_gradients(load(folder), ids)
    if weak := [name for name, gradient in gradients.items() if not gradient.abs().max() > 1e-4]:
        return f"gradients: {weak}"

    write_expected(folder, ids, logits, gradients)
    facts = {"seed": seed, "params": sum(p.numel() for p in model.parameters()),
             "logits_absmax": logits.abs().max().item(), "logits_std": logits.std().item(),
             "greedy_prompt": ids[0, :PROMPT].tolist(), "greedy_ids": continued, "greedy_margin": margin,
             "loss": loss, "torch": torch.__version__, "transformers": transformers.__version__}
    if is_dynamic:
        facts["greedy_ids_without_cache"] = uncached
    (folder / "golden.json").write_text(json.dumps(facts, indent=2) + "\n")
    if golden.v4 is not None:
        write_v4(folder, golden.v4, ids, logits)
    return None


def main():
    out = pathlib.Path(sys.argv[1])
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in sys.argv[2:] or MODELS:
        for seed in range(100):
            with tempfile.TemporaryDirectory() as scratch:
                folder = pathlib.Path(scratch) / name
                if wrong := make(folder, MODELS[name], seed):
                    print(f"{name}: seed {seed}: {wrong}", flush=True)
                    continue
                shutil.rmtree(out / name, ignore_errors=True)
                shutil.copytree(folder, out / name, copy_function=shutil.copyfile)
                print(f"{name}: seed {seed}, {sum(f.stat().st_size for f in folder.iterdir())} bytes", flush=True)
                break
        else:
            sys.exit(f"{name}: no seed will do")


if __name__ == "__main__":
    main()
