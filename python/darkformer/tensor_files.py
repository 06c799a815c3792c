"""safetensors files by numpy: 8 bytes with the length of a JSON header, the header, the tensors' bytes."""
# SPDX-License-Identifier: Apache-2.0
import json
import math
import os
import struct
from pathlib import Path

import numpy
import torch

# numpy has no bfloat16: it is read as int16 and given its type by torch.
_TYPES = {"F64": (numpy.float64, torch.float64), "F32": (numpy.float32, torch.float32),
          "F16": (numpy.float16, torch.float16), "BF16": (numpy.int16, torch.bfloat16),
          "I64": (numpy.int64, torch.int64), "I32": (numpy.int32, torch.int32), "I16": (numpy.int16, torch.int16),
          "I8": (numpy.int8, torch.int8), "U8": (numpy.uint8, torch.uint8), "BOOL": (numpy.bool_, torch.bool)}
_NAMES = {kind: name for name, (_, kind) in _TYPES.items()}
_LONGEST_HEADER = 100 << 20


def _read_header(file):
    """(header, offset of the data) of an open file."""
    size = os.fstat(file.fileno()).st_size
    start = file.read(8)
    length = struct.unpack("<Q", start)[0] if len(start) == 8 else -1
    if not 2 <= length <= min(size - 8, _LONGEST_HEADER):
        raise ValueError(f"{file.name}: no safetensors file, or cut short")
    try:
        header = json.loads(file.read(length).decode("utf-8"))
        if not isinstance(header, dict):
            raise ValueError("the header is no object")
    except ValueError as error:
        raise ValueError(f"{file.name}: no safetensors file: {error}") from None
    return header, 8 + length, size


def read_safetensors(path):
    """{name: tensor} of a file, in the types it has. Raises ValueError that names the file and the tensor."""
    with open(path, "rb") as file:
        header, begin, size = _read_header(file)
        header.pop("__metadata__", None)
        tensors = {}
        for name, entry in header.items():
            try:
                stored, kind = _TYPES[entry["dtype"]]
                shape = [int(length) for length in entry["shape"]]
                first, last = entry["data_offsets"]
            except (KeyError, TypeError, ValueError) as error:
                raise ValueError(f"{path}: tensor '{name}': {error!r} in its header") from None
            count = math.prod(shape)
            if not 0 <= first <= last <= size - begin or last - first != count * numpy.dtype(stored).itemsize:
                raise ValueError(f"{path}: tensor '{name}' of shape {shape} has bytes {first} to {last} of {size - begin}")
            file.seek(begin + first)
            # frombuffer over a bytearray: writable, as tensors want it
            values = numpy.frombuffer(bytearray(file.read(last - first)), dtype=stored)
            tensor = torch.from_numpy(values).reshape(shape)
            tensors[name] = tensor.view(kind) if tensor.dtype != kind else tensor
    return tensors


def _bytes_of(tensor):
    tensor = tensor.detach().cpu().contiguous()
    return (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy().tobytes()


def write_safetensors(path, tensors):
    """Writes {name: tensor} under another name first, so that the file appears whole or not at all."""
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name in names:
        tensor = tensors[name]
        if tensor.dtype not in _NAMES:
            raise ValueError(f"{path}: tensor '{name}' is {tensor.dtype}, which safetensors has no name for")
        begin, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode("utf-8")
    text += b" " * (-len(text) % 8)
    path = Path(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(unfinished, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for name in names:
                file.write(_bytes_of(tensors[name]))
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def read_weights(folder):
    """{name: tensor} of model.safetensors, or of the shards that model.safetensors.index.json names."""
    folder = Path(folder)
    single, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if single.exists():
        return read_safetensors(single)
    if not index.exists():
        raise ValueError(f"{folder}: neither model.safetensors nor model.safetensors.index.json")
    try:
        places = dict(json.loads(index.read_text(encoding="utf-8"))["weight_map"])
    except (KeyError, TypeError, ValueError):
        raise ValueError(f"{index}: no \"weight_map\"") from None
    tensors = {}
    for shard in sorted(set(places.values())):
        if Path(shard).name != shard:
            raise ValueError(f"{index}: {shard} is outside the folder")
        found = read_safetensors(folder / shard)
        missing = [name for name, place in places.items() if place == shard and name not in found]
        if missing:
            raise ValueError(f"{folder / shard}: tensor '{missing[0]}' is missing")
        tensors.update({name: tensor for name, tensor in found.items() if places.get(name) == shard})
    return tensors
