"""Any quantization_config, of keys that are known, null, absent, empty or unknown, is read as an oracle reads it, or refused by a key that
it names.

    quantization_config_test.py [--seed N] [COUNT]     30 draws of seed 1 without arguments
"""
import argparse
import json
import os
import pathlib
import random
import sys
import tempfile

from program import FIXTURES, sluice

sys.path.append(str(FIXTURES))
import make_quantised  # noqa: E402

ABSENT, WORD = "absent", "florp"  # WORD is known to nobody
# What the files of each form hold: codes, their text, the block of FP8 ones, the group of INT4 ones.
HELD = {None: (None, "bfloat16", None, None),
        "fp8-blocks": ("fp8", "float8_e4m3fn in blocks of 20 x 24", (20, 24), None),
        "fp8-rows": ("fp8", "float8_e4m3fn by row", "rows", None),
        "fp8-tensor": ("fp8", "float8_e4m3fn by tensor", None, None),
        "int4": ("int4", "int4 in groups of 16", None, 16),
        "mxfp4": ("float4", "mxfp4 in groups of 32", None, None),
        "nvfp4": ("float4", "nvfp4 in groups of 16", None, None),
        "nvfp4-modelopt": ("float4", "nvfp4 in groups of 16", None, None),
        **{form: ("fp8", "float8_e4m3fn in blocks of 1 x 32", (1, 32), None) for form in ("mxfp8", "mxfp8-modelopt", "mxfp8-compressed")}}
ALGORITHMS = {"FP8": "fp8", "FP8_PB_WO": "fp8", "FP8_PER_CHANNEL_PER_TOKEN": "fp8", "MXFP8": "fp8", "NVFP4": "float4",
              "W4A16_NVFP4": "float4", "W4A8_NVFP4_FP8": "float4", "MXFP4": "float4"}
FORMATS = ("float-quantized", "naive-quantized", "pack-quantized", "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized")


class Grammar:
    """Objects with a key here and there in another form than it is published in."""

    def __init__(self, generator):
        self.generator = generator

    def one(self, usual, *others):
        return usual if self.generator.random() < 0.85 else self.generator.choice(others)

    def members(self, usual, **others):
        """`usual` with values of `others` for some keys, which may be absent there."""
        drawn = {key: self.one(usual.get(key, ABSENT), None, ABSENT, *values) for key, values in others.items()}
        return {key: value for key, value in (usual | drawn).items() if value is not ABSENT}

    def activations(self):
        return [{}, {"type": "float", "num_bits": 8}, {"type": "int", "num_bits": 8}, {"dynamic": True}]

    def transforms(self):
        location = self.generator.choice(["weight_input", "weight_output", "input", "output", "q_attn", "k_cache", None, WORD])
        apply = self.generator.choice([None, [], [{"targets": ["Linear"], "location": location}]])
        return [{}, {"config_groups": None}, {"config_groups": {}}, {WORD: {}},
                *4 * [{"config_groups": {"R1": {"type": "hadamard", "apply": apply}}}]]

    def group(self, usual):
        args = self.members(usual["weights"], num_bits=[2, 8], type=["FLOAT", WORD], symmetric=[True, False], dynamic=[False],
                            strategy=["", WORD], group_size=[-1, 32], actorder=["weight", "static", "group", "dynamic", True, False, WORD],
                            observer=[WORD])
        return self.members(usual | {"weights": args}, weights=[{}], input_activations=self.activations(),
                            output_activations=self.activations(), format=["", "marlin-24", *FORMATS], targets=[[], ["lm_head"]])

    def announcement(self, usual):
        method = usual["quant_method"]
        common = dict(quant_method=["", "gptq"], transform_config=self.transforms(), load_in_8bit=[True, False], florp=[1, {}, ""],
                      kv_cache_scheme=[{}, {"type": "int"}, WORD])
        if method in ("fp8", "mxfp8"):
            return self.members(usual, fmt=["", "e5m2"], activation_scheme=["", "static", "dynamic"], scale_fmt=["ue8m0"],
                                ignored_layers=[[]], expert_dtype=["fp8", "fp4"], weight_block_size=[[], [16, 16], [20, 24], [1, 32], [128, 128]], **common)
        if method == "compressed-tensors":
            groups = {name: self.group(group) for name, group in usual["config_groups"].items()}
            return self.members(usual | {"config_groups": groups}, config_groups=[{}], format=["", "marlin-24", "dense", *FORMATS],
                                sparsity_config=[{}, {"format": "dense"}, {"format": "sparse-24-bitmask"}], quantization_status=[WORD],
                                moe_sparsity_config=[{}, {"method": "prune"}, {"method": "novice"}], **common)
        if method == "modelopt":
            usual = self.members(usual, quant_algo=["", "nvfp4", "NVFP4_AWQ", "W4A8_AWQ", "MIXED_PRECISION", *ALGORITHMS],
                                 pre_quant_scale=[True, False], has_zero_point=[True], exclude_modules=[[]], group_size=[16],
                                 kv_cache_quant_algo=["FP8"], **common)
            return usual if self.generator.random() < 0.7 else {"quantization": usual, "quant_method": usual.pop("quant_method", None)}
        return self.members(usual, **common)

    def config(self, usual):
        said = self.announcement(usual)
        return self.generator.choice([*4 * [{"quantization_config": said}], {"compression_config": said}, {"quantization_config": {}},
                                      {"quantization_config": None, "compression_config": said}, {"compression_config": {}}])


def read(of, key, usual=None):
    return usual if of.get(key) is None else of[key]


class Oracle:
    """What a quantization_config says: `faults` are keys that are refused, `forms` (codes, block, group), and `is_open` that the files
    alone decide."""

    def __init__(self, config):
        self.faults, self.forms, self.is_open = set(), [], False
        said = read(config, "quantization_config") or read(config, "compression_config")
        if not said:
            self.is_open = True
            return
        self.refuse_if("load_in_8bit", read(said, "load_in_8bit", False))
        self.transforms(read(said, "transform_config", {}))
        method = read(said, "quant_method")
        if method is None:
            self.is_open = True
            method = self.method_of(said)
        reader = {"fp8": self.fp8, "mxfp8": self.mxfp8, "compressed-tensors": self.compressed, "modelopt": self.modelopt,
                  "mxfp4": lambda _: self.forms.append(("float4", None, None)), None: lambda _: None}.get(method)
        self.refuse_if("quant_method", reader is None)
        if reader:
            reader(said)
        self.is_open |= not self.forms

    @staticmethod
    def method_of(said):
        for method, keys in {"modelopt": ["quant_algo", "quantization"], "compressed-tensors": ["config_groups", "format"],
                             "fp8": ["weight_block_size", "fmt", "activation_scheme"]}.items():
            if any(read(said, key) is not None for key in keys):
                return method
        return None

    def refuse_if(self, key, is_fault):
        if is_fault:
            self.faults.add(key)

    def transforms(self, said):
        self.refuse_if(WORD, read(said, WORD) is not None)
        for scheme in read(said, "config_groups", {}).values():
            for applied in read(scheme, "apply", []):
                self.refuse_if("location", applied["location"] not in ("weight_input", "weight_output"))

    def fp8(self, said):
        block = read(said, "weight_block_size")
        self.refuse_if("weight_block_size", block == [])
        self.refuse_if("fmt", read(said, "fmt", "e4m3") != "e4m3")
        self.refuse_if("expert_dtype", read(said, "expert_dtype", "fp8") != "fp8")
        self.forms.append(("fp8", tuple(block) if block else None, None))

    def mxfp8(self, said):
        self.fp8({"weight_block_size": [1, 32]} | {key: value for key, value in said.items() if value is not None})

    def compressed(self, said):
        self.refuse_if("sparsity_config", read(read(said, "sparsity_config", {}), "format", "dense") != "dense")
        self.refuse_if("moe_sparsity_config", read(read(said, "moe_sparsity_config", {}), "method", "prune") != "prune")
        for group in read(said, "config_groups", {}).values():
            for key in ("input_activations", "output_activations"):
                self.refuse_if(key, group.get(key) is not None and read(group[key], "type", "int") == "int")
            self.refuse_if("format", read(group, "format", FORMATS[0]) not in FORMATS)
            if read(group, "weights") is not None:
                self.weights(group["weights"])
        known = ("mixed-precision", *FORMATS) if self.forms else ("mixed-precision", "dense", *FORMATS)
        self.refuse_if("format", read(said, "format", FORMATS[0]) not in known)

    def weights(self, args):
        bits, kind = read(args, "num_bits", 8), read(args, "type", "int").lower()
        self.refuse_if("num_bits", (bits, kind) not in ((4, "int"), (4, "float"), (8, "float")))
        self.refuse_if("symmetric", read(args, "symmetric", True) is False)
        self.refuse_if("actorder", args.get("actorder") == WORD)
        size = read(args, "group_size", -1)
        block = (1, size) if bits == 8 and size > 0 else None
        self.forms.append(("fp8" if bits == 8 else "int4" if kind == "int" else "float4", block, size if size > 0 else None))

    def modelopt(self, said):
        for of in (said, read(said, "quantization", {})):
            for key in ("pre_quant_scale", "has_zero_point"):
                self.refuse_if(key, read(of, key, False))
            algorithm = read(of, "quant_algo")
            if algorithm is None:
                continue
            algorithm = algorithm.upper()
            self.is_open |= algorithm not in ("FP8", "NVFP4", "MXFP8")
            self.refuse_if("quant_algo", algorithm not in ALGORITHMS and algorithm != "MIXED_PRECISION")
            if algorithm in ALGORITHMS:
                self.forms.append((ALGORITHMS[algorithm], (1, 32) if algorithm == "MXFP8" else None, None))

    def faults_beside(self, files):
        """Keys and tensors of which one is named, of a directory with files of that form; empty: it is read."""
        codes, _, block, group = HELD[files]
        of_codes = [form for form in self.forms if form[0] == codes]
        if self.faults or (not self.is_open and not of_codes):
            return self.faults or {"quantization_config", "compression_config"}
        has_others = self.is_open or any(form[1] is None for form in of_codes)
        blocks = [form[1] for form in of_codes if form[1]]
        if block and not (block in blocks or (has_others and block in ("rows", (1, 32)))):
            return {"_scale"}
        if group and not self.is_open and all(form[2] for form in of_codes) and group not in [form[2] for form in of_codes]:
            return {"group_size"}
        return set()


def write_models(directory):
    for form in HELD:
        if form:
            make_quantised.write(form, make_quantised.SOURCE, directory / form)
    (directory / "None").mkdir()
    (directory / "None/model.safetensors").symlink_to(make_quantised.SOURCE / "model.safetensors")


def failure_of(model, files, config):
    """What differs from the oracle; "": nothing."""
    plain = json.loads((make_quantised.SOURCE / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(plain | config))
    faults, result = Oracle(config).faults_beside(files), sluice("inspect", model, "--json")
    text = HELD[files][1]
    if faults:
        is_as_expected, expected = result.status == 65 and any(key in result.output for key in faults), f"65 with one of {faults}"
    else:
        is_as_expected, expected = result.status == 0 and text in json.loads(result.output)["files"]["dtypes"], text
    return "" if is_as_expected else f"expected {expected}:\n{result.output}"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=os.environ.get("SLUICE_SWEEP_SEED", 1))
    options.add_argument("count", type=int, nargs="?", default=30)
    asked = options.parse_args()
    failed, read_ones = [], 0
    with tempfile.TemporaryDirectory() as place:
        write_models(pathlib.Path(place))
        for number in range(asked.count):
            generator = random.Random(f"{asked.seed} {number}")
            files = list(HELD)[number % len(HELD)]
            like = files or generator.choice(list(HELD)[1:])
            usual = (make_quantised.FORMS | make_quantised.RARE_FORMS)[like][2]
            config = Grammar(generator).config(usual)
            read_ones += not Oracle(config).faults_beside(files)
            if failure := failure_of(pathlib.Path(place) / str(files), files, config):
                failed.append(number)
                print(f"draw {number} of seed {asked.seed}, files {files}, {json.dumps(config)}: {failure}", flush=True)
    print(f"{asked.count} draws of seed {asked.seed}: {read_ones} are read, {asked.count - read_ones} refused")
    sys.exit(f"{len(failed)} differ: {failed}" if failed else 0)


if __name__ == "__main__":
    main()
