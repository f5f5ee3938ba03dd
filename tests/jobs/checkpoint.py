"""Checkpoints as dictionaries of arrays: read from a fixture, changed, written again. bfloat16 is held as float32."""
import json
import shutil
import struct

import numpy


def _from_bfloat16(data):
    return (numpy.frombuffer(data, dtype="<u2").astype("<u4") << 16).view("<f4")


def _to_bfloat16(values):
    return (values.astype("<f4").view("<u4") >> 16).astype("<u2")


READ = {"BF16": _from_bfloat16, "F16": lambda data: numpy.frombuffer(data, dtype="<f2").astype("<f4"),
        "F32": lambda data: numpy.frombuffer(data, dtype="<f4"), "F64": lambda data: numpy.frombuffer(data, dtype="<f8")}
WRITE = {"BF16": _to_bfloat16, "F16": lambda values: values.astype("<f2"), "F32": lambda values: values.astype("<f4"),
         "F64": lambda values: values.astype("<f8")}


def split(raw):
    """(header, data) of a safetensors file."""
    length = struct.unpack("<Q", raw[:8])[0]
    return json.loads(raw[8:8 + length]), raw[8 + length:]


def joined(header, data):
    """A safetensors file; the header may be its JSON text already."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def read_tensors(path):
    """{name: (dtype, shape, bytes)} of a safetensors file."""
    header, body = split(path.read_bytes())
    header.pop("__metadata__", None)
    return {name: (t["dtype"], tuple(t["shape"]), body[slice(*t["data_offsets"])]) for name, t in header.items()}


def write_tensors(path, tensors):
    """A safetensors file of {name: (dtype, shape, bytes)}, in that order. Returns the bytes of all tensors."""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    path.write_bytes(joined(header, b"".join(data for _, _, data in tensors.values())))
    return at


def write_model(directory, tensors, config):
    """A model directory of one file of tensors as read_tensors() gives them, beside the object `config`."""
    directory.mkdir()
    (directory / "config.json").write_text(json.dumps(config))
    write_tensors(directory / "model.safetensors", tensors)
    return directory


def read(directory):
    """Name -> array, of all safetensors files in a directory."""
    tensors = {}
    for path in sorted(directory.glob("*.safetensors")):
        header, data = split(path.read_bytes())
        header.pop("__metadata__", None)
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            tensors[name] = READ[entry["dtype"]](data[begin:end]).reshape(entry["shape"])
    return tensors


def write(directory, tensors, source, dtype="BF16"):
    """A model directory of one file, with the configuration of the fixture `source`."""
    directory.mkdir()
    shutil.copy(source / "config.json", directory)
    header, parts, at = {}, [], 0
    for name, values in tensors.items():
        part = WRITE[dtype](numpy.ascontiguousarray(values)).tobytes()
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [at, at + len(part)]}
        parts.append(part)
        at += len(part)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (directory / "model.safetensors").write_bytes(joined(text, b"".join(parts)))
    return directory


def renamed(tensors, old, new):
    return {new + name.removeprefix(old) if name.startswith(old) else name: values for name, values in tensors.items()}


MIXTRAL = {".block_sparse_moe.": ".mlp.", ".w1.": ".gate_proj.", ".w3.": ".up_proj.", ".w2.": ".down_proj."}


def plain_name(name):
    """A name of a published Mixtral as transformers' module tree has it."""
    for published, plain in MIXTRAL.items():
        name = name.replace(published, plain)
    return name


def published_name(name):
    """The way back."""
    if ".experts." not in name and ".mlp.gate." not in name:
        return name
    for published, plain in MIXTRAL.items():
        name = name.replace(plain, published)
    return name


def with_joined_experts(tensors):
    """experts.N.gate_proj and experts.N.up_proj as one experts.N.gate_up_proj."""
    out = {}
    for name, values in tensors.items():
        if ".experts." in name and name.endswith(".gate_proj.weight"):
            up = tensors[name.replace(".gate_proj.", ".up_proj.")]
            out[name.replace(".gate_proj.", ".gate_up_proj.")] = numpy.concatenate([values, up])
        elif ".experts." not in name or not name.endswith(".up_proj.weight"):
            out[name] = values
    return out


def with_separate_gates(tensors):
    """Fused experts.gate_up_proj as experts.gate_proj and experts.up_proj."""
    out = {}
    for name, values in tensors.items():
        if name.endswith(".experts.gate_up_proj"):
            halves = numpy.split(values, 2, axis=1)
            for half, projection in zip(halves, ["gate_proj", "up_proj"]):
                out[name.replace("gate_up_proj", projection)] = half
        else:
            out[name] = values
    return out
