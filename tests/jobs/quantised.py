"""Directories of quantised weights, as the plain bfloat16 numbers that they stand for: by the formula, in numpy."""
import json
import re

import numpy

import checkpoint

WORD = 8  # 4-bit numbers in an int32


def _float8(code):
    exponent, fraction = code >> 3 & 15, code & 7
    sign = -1.0 if code & 0x80 else 1.0
    if code & 0x7f == 0x7f:
        return float("nan")
    return sign * (fraction * 2.0**-9 if exponent == 0 else (8 + fraction) * 2.0**(exponent - 10))


FLOAT8 = numpy.array([_float8(code) for code in range(256)], "<f4")  # by code


FLOAT4 = numpy.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], "<f4")  # by code


def float4_numbers(codes, scales):
    """[..., columns] of 4-bit codes, the lower half of a byte first, and float32 scales [..., groups]."""
    numbers = FLOAT4[numpy.stack([codes & 15, codes >> 4], -1)].reshape(*scales.shape, -1)
    return round_to_bfloat16(numbers * scales[..., None]).reshape(*scales.shape[:-1], -1)


def float4_scales(scales, divisor=None, factor=None):
    """Exponents (MXFP4) or float8_e4m3fn numbers under the scale of the tensor (NVFP4), each (dtype, shape, bytes), as float32."""
    dtype, shape, data = scales
    if dtype == "U8":
        return _powers_of_two(scales)
    codes = numpy.frombuffer(data, "u1").reshape(shape)
    return FLOAT8[codes] / _of_matrices(divisor) if divisor else FLOAT8[codes] * _of_matrices(factor)


def round_to_bfloat16(values):
    """To nearest even, as float32; no NaN."""
    bits = numpy.ascontiguousarray(values, "<f4").view("<u4").astype("u8")
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16 << 16).astype("<u4").view("<f4")


NORMAL_FLOAT4 = numpy.array([-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
                             -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
                             0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1], "<f4")


def int8_rounded(matrices):
    """[..., columns] as model.frozen_format = "int8" keeps it: bitsandbytes' int8_vectorwise_quant, and back."""
    largest = numpy.abs(matrices).max(-1, keepdims=True)
    with numpy.errstate(divide="ignore"):
        factor = numpy.float32(127) * (numpy.float32(1) / largest)
    codes = numpy.rint(matrices * numpy.where(numpy.isfinite(factor), factor, numpy.float32(0)))
    return round_to_bfloat16(codes * (largest / numpy.float32(127)))


def nf4_rounded(matrices):
    """[..., columns] as "nf4" keeps it: bitsandbytes' quantize_4bit of each row, with zeros behind it, and back."""
    columns, borders = matrices.shape[-1], (NORMAL_FLOAT4[:-1] + NORMAL_FLOAT4[1:]) / numpy.float32(2)
    padded = numpy.pad(matrices, [(0, 0)] * (matrices.ndim - 1) + [(0, -columns % 64)])
    blocks = padded.reshape(*padded.shape[:-1], -1, 64)
    largest = numpy.abs(blocks).max(-1, keepdims=True)
    scaled = numpy.clip(blocks * (numpy.float32(1) / numpy.maximum(largest, numpy.float32(1e-38))), -1, 1)
    numbers = NORMAL_FLOAT4[numpy.searchsorted(borders, scaled)] * largest
    return round_to_bfloat16(numbers.reshape(padded.shape)[..., :columns])


def stored(directory):
    """{name: (dtype, shape, bytes)} of all files of a directory."""
    tensors = {}
    for path in sorted(directory.glob("*.safetensors")):
        tensors |= checkpoint.read_tensors(path)
    return tensors


def _plain(tensor):
    dtype, shape, data = tensor
    return checkpoint.READ[dtype](data).reshape(shape)


def _of_matrices(tensor):
    """One number, or one for each fused matrix."""
    values = _plain(tensor)
    return values.reshape(()) if values.size == 1 else values.reshape(-1, 1, 1)


def _powers_of_two(tensor):
    _, shape, data = tensor
    return numpy.ldexp(numpy.float32(1), numpy.frombuffer(data, "u1").reshape(shape).astype("i4") - 127)


def _spread(scale, shape, block):
    """A scale for each element of fused matrices or one."""
    if scale.size == 1:
        return scale.reshape(1, 1)
    if scale.ndim == 4 and len(shape) == 2:  # ModelOpt's [grid rows, 1, grid columns, 1]
        scale = scale.reshape(scale.shape[0], scale.shape[2])
    if scale.shape == shape[:-1]:
        scale = scale[..., None]
    if scale.shape != (*shape[:-1], 1):
        scale = numpy.repeat(numpy.repeat(scale, block[0], -2), block[1], -1)
    return scale[..., :shape[-2], :shape[-1]]


def _block(config, module, scales):
    """Rows and columns of the FP8 blocks of a module: compressed-tensors takes targets that are its name, then the first regular
    expression in the order of texts, then classes, of which here are linear layers alone; of equal ones the last."""
    if scales[0] == "U8":
        return 1, 32
    targets = {target: group["weights"] for group in config.get("config_groups", {}).values() for target in group.get("targets", ())}
    for target in sorted(targets, key=lambda target: (target == "Linear", "re:" in target, target)):
        is_match = re.match(target[3:], module) if target.startswith("re:") else target in (module, "Linear")
        if is_match and targets[target].get("block_structure"):
            return targets[target]["block_structure"]
    return config.get("weight_block_size") or (128, 128)


def read(directory):
    """Name -> float32 array, of all tensors of the model: bfloat16 numbers, or float32 ones that are stored so."""
    found = stored(directory)
    config = json.loads((directory / "config.json").read_text()).get("quantization_config") or {}
    tensors = {}

    def scales_of(base, *endings):
        return next((found[base + ending] for ending in endings if base + ending in found), None)

    for name, (dtype, shape, data) in found.items():
        if name.endswith("_blocks"):
            base = name.removesuffix("_blocks")
            tensors[base] = float4_numbers(numpy.frombuffer(data, "u1").reshape(shape), float4_scales(found[base + "_scales"]))
        elif dtype == "U8" and "_scale" not in name:
            base = name.removesuffix("_packed")
            scales = float4_scales(scales_of(base, "_scale", "_weight_scale"), scales_of(base, "_global_scale"),
                                   scales_of(base, "_scale_2", "_weight_scale_2"))
            tensors[base] = float4_numbers(numpy.frombuffer(data, "u1").reshape(shape), scales)
        elif name.endswith("_packed"):
            base = name.removesuffix("_packed")
            words = numpy.frombuffer(data, "<u4").reshape(shape)
            numbers = numpy.stack([(words >> 4 * i & 15).astype("i4") - 8 for i in range(WORD)], 2).reshape(shape[0], -1)
            scale = _plain(found[base + "_scale"])
            tensors[base] = round_to_bfloat16(numbers.astype("<f4") * scale.repeat(numbers.shape[1] // scale.shape[1], 1))
        elif dtype == "F8_E4M3" and not name.endswith("_scale"):
            scale = scales_of(name, "_scale_inv", "_scale", "_weight_scale")
            codes = FLOAT8[numpy.frombuffer(data, "u1").reshape(shape)]
            numbers = _powers_of_two(scale) if scale[0] == "U8" else _plain(scale)
            block = _block(config, name.removesuffix(".weight"), scale)
            tensors[name] = round_to_bfloat16(codes * _spread(numbers, shape, block))
        elif "_scale" not in name and not name.endswith("_shape"):
            tensors[name] = _plain((dtype, shape, data))
    return tensors


def write_twin(directory, target):
    """The same model in bfloat16, without quantization_config; what is stored in float32 stays so. There gpt_oss has the
    matrices of experts transposed."""
    config = json.loads((directory / "config.json").read_text())
    tensors = read(directory)
    if config["model_type"] == "gpt_oss":
        tensors = {name: values.swapaxes(1, 2) if name.endswith(("experts.gate_up_proj", "experts.down_proj")) else values
                   for name, values in tensors.items()}
    types = {name: dtype for name, (dtype, _, _) in stored(directory).items() if dtype == "F32"}
    target.mkdir()
    checkpoint.write_tensors(target / "model.safetensors", {
        name: (types.get(name, "BF16"), values.shape, checkpoint.WRITE[types.get(name, "BF16")](values).tobytes())
        for name, values in tensors.items()})
    for key in ("quantization_config", "compression_config"):
        config.pop(key, None)
    (target / "config.json").write_text(json.dumps(config))
    return target
