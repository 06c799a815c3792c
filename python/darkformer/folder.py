"""A model folder as a Gemma, and a Gemma as a model folder that the program reads."""
# SPDX-License-Identifier: Apache-2.0
import json
import os
import shutil
from pathlib import Path

import torch

from .config import read_gemma_config
from .gemma import Gemma
from .tensor_files import read_weights, write_safetensors

_EMBEDDING = "model.embed_tokens.weight"
_PREFIXES = ("language_model.model.", "model.language_model.")  # of multimodal files
_OTHERS = ("vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector.")
_COMPANIONS = ("tokenizer.model", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
               "generation_config.json", "added_tokens.json", "chat_template.jinja")
_MARK = ".self_attn.dark."


def _canonical(weights):
    """The language model's tensors under the names of text models; the stored copy of the tied head is checked."""
    prefix = next((p for p in _PREFIXES if p + "embed_tokens.weight" in weights), "model.")
    found = {}
    for name, tensor in weights.items():
        if name in ("lm_head.weight", "language_model.lm_head.weight"):
            embedding = weights.get(prefix + "embed_tokens.weight")
            if embedding is not None and tensor.shape == embedding.shape and not torch.equal(tensor, embedding):
                raise ValueError(f"tensor '{name}' is not the embedding; Gemma's head is tied to it")
        elif name.startswith(prefix) and not name.startswith(_OTHERS):
            found["model." + name[len(prefix):]] = tensor
        elif not name.startswith(_OTHERS):
            found[name] = tensor
    return {name: tensor for name, tensor in found.items() if not name.endswith(".rotary_emb.inv_freq")}


def _check(found, wanted, folder):
    """One line with the first few tensors of each sort that do not fit."""
    problems = []
    for sort, names in (
            ("missing", [name for name in wanted if name not in found]),
            ("not of this model", [name for name in found if name not in wanted]),
            ("of another shape", [f"{name} is {list(found[name].shape)}, wanted {list(tensor.shape)}"
                                  for name, tensor in wanted.items()
                                  if name in found and found[name].shape != tensor.shape])):
        if names:
            problems.append(f"{len(names)} {sort} ({', '.join(names[:4])}{', ...' if len(names) > 4 else ''})")
    if problems:
        raise ValueError(f"{folder}: tensors do not fit config.json: {'; '.join(problems)}")


def load_gemma(folder, dtype=torch.float32):
    """The Gemma of a folder: as downloaded, or as `darkformer convert` and `darkformer finetune` write it.

    Weights become `dtype`, by default float32, in which the program computes. Parameters of converted attention are
    float32 all the same, but for float64, which runs everything as a slow reference.
    ValueError, one line that names the file and the tensor: what is missing, of another shape, or not understood.
    """
    if dtype not in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        raise ValueError(f"load_gemma: dtype is {dtype}; wanted float32, bfloat16, float16 or float64 of torch")
    folder = Path(folder)
    config = read_gemma_config(folder / "config.json")
    model = Gemma(config)
    try:
        weights = _canonical(read_weights(folder))
    except ValueError as error:
        raise ValueError(str(error) if str(folder) in str(error) else f"{folder}: {error}") from None
    _check(weights, model.state_dict(), folder)
    with torch.no_grad():
        if dtype == torch.float64:
            model.double()
        for name, parameter in model.named_parameters():
            if _MARK not in name and parameter.dtype != dtype:
                parameter.data = torch.empty_like(parameter, dtype=dtype)
        for name, tensor in model.state_dict().items():
            tensor.copy_(weights.pop(name))  # one at a time: a large model is not in memory three times
    return model


def save_gemma(folder, model, companions=None, dtype=None):
    """Writes a new model folder that the program and load_gemma read: config.json, the weights (as they are, or as
    `dtype`; converted attention stays float32), and the tokenizer's files of the folder `companions`. The folder
    appears whole or not at all."""
    folder = Path(folder)
    if dtype not in (None, torch.float32, torch.bfloat16, torch.float16):
        raise ValueError(f"save_gemma: dtype is {dtype}; wanted float32, bfloat16 or float16 of torch, or None")
    if companions and not Path(companions).is_dir():
        raise FileNotFoundError(f"{companions}: no such folder, so it has no tokenizer to keep")
    if folder.exists():
        raise FileExistsError(f"{folder}: exists already; remove it or choose another")
    tensors = {name: tensor if dtype is None or _MARK in name else tensor.to(dtype)
               for name, tensor in model.state_dict().items()}
    document = model.config.to_json()
    if "text_config" in document:  # only the language model is saved
        document = {**document.pop("text_config"), **document, "model_type": "gemma3_text"}
        if not model.config.converted():
            document["architectures"] = ["Gemma3ForCausalLM"]
        else:
            document["darkformer"]["base_architectures"] = ["Gemma3ForCausalLM"]
    document["dtype" if "dtype" in document else "torch_dtype"] = str(tensors[_EMBEDDING].dtype).split(".")[1]
    unfinished = folder.with_name(f".{folder.name}.{os.getpid()}")
    try:
        unfinished.mkdir(parents=True)
    except OSError as error:
        raise OSError(error.errno, f"cannot be made: {error.strerror}", str(folder)) from None
    try:
        (unfinished / "config.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
        write_safetensors(unfinished / "model.safetensors", tensors)
        for name in _COMPANIONS if companions else ():
            if (Path(companions) / name).exists():
                shutil.copyfile(Path(companions) / name, unfinished / name)
        os.replace(unfinished, folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
