"""FP8, INT4, MXFP4 and NVFP4 checkpoints are the bfloat16 numbers that they stand for, in every command.

    quantised_test.py [Quantised | Families | AsTheSource]...
"""
import json
import re
import shutil
import sys
import unittest

import checkpoint
import h5py
import numpy
import program
import quantised
from program import FIXTURES, JobTest, mpirun, reference_job, sluice
from suite import run_job

sys.path.append(str(FIXTURES))
import make_quantised  # noqa: E402

FORMS = ["fp8-blocks", "fp8-rows", "fp8-tensor", "int4", "mxfp4"]
RARE_FORMS = list(make_quantised.RARE_FORMS)
READ_FORMS = list(make_quantised.READ_FORMS)
MXFP4_MODEL = "gpt_oss-tiny-mxfp4"
WEIGHTS = "model.layers.2.mlp.experts.5.up_proj.weight"


def fixture(form):
    return FIXTURES / f"qwen3-moe-tiny-{form}"


class Quantised(JobTest):
    def model(self, form):
        """A fixture, or one that is written here."""
        if form in FORMS:
            return fixture(form)
        model = self.directory / f"model-{form}"
        if not model.exists():
            make_quantised.write(form, make_quantised.SOURCE, model)
        return model

    def twin(self, form):
        return quantised.write_twin(self.model(form), self.directory / f"twin-{form}")

    def test_each_form_equals_its_twin(self):
        for form in FORMS + RARE_FORMS + READ_FORMS:
            with self.subTest(form=form):
                self.expect(sluice("verify", self.model(form), self.twin(form)), 0)

    def test_a_synthesized_model_is_stored_as_its_config_says(self):
        for model in [*(self.model(form) for form in FORMS + RARE_FORMS), FIXTURES / MXFP4_MODEL]:
            with self.subTest(model=model.name):
                out = self.directory / f"synthetic-{model.name}"
                self.expect(sluice("synthesize", model, out), 0)
                names = {name: tensor[:2] for name, tensor in quantised.stored(model).items() if not name.endswith(("input_scale", "input_global_scale"))}
                found = {name: tensor[:2] for name, tensor in quantised.stored(out).items()}
                if model.parent == self.directory:
                    self.assertEqual(found, names)
                twin = quantised.write_twin(out, self.directory / f"synthetic-twin-{model.name}")
                self.expect(sluice("verify", out, twin), 0)

    def test_inspect_says_how_weights_are_stored(self):
        found = json.loads(sluice("inspect", fixture("fp8-blocks"), "--json").output)
        self.assertEqual(found["files"]["dtypes"]["float8_e4m3fn in blocks of 20 x 24"],
                         {"tensors": 84, "elements": 294912})
        self.expect(sluice("inspect", fixture("int4")), 0, "int4", "groups of 16", "72 tensors", "221184 elements")
        self.expect(sluice("inspect", fixture("mxfp4")), 0, "mxfp4", "groups of 32", "48 tensors", "147456 elements")
        self.expect(sluice("inspect", self.model("nvfp4")), 0, "nvfp4", "groups of 16", "72 tensors", "221184 elements")

    def test_check_names_what_is_left_out_and_counts_stored_bytes(self):
        job = self.write_job(job={"kind": "load"}, model={"path": fixture("fp8-tensor")})
        result = sluice("check", job)
        self.expect(result, 0, "84 tensors", "activations")
        self.expect(sluice("check", self.write_job("channels.toml", job={"kind": "load"}, model={"path": self.model("channels")})), 0,
                    f"{7 * 84} tensors", "activations")
        stored = sum(len(data) for path in fixture("fp8-tensor").glob("*.safetensors")
                     for name, (_, _, data) in checkpoint.read_tensors(path).items() if "input_scale" not in name)
        self.assertIn(f"{stored / 1000:.2f} kB", result.output)

    def first_loss(self, name, model, of="qwen3-moe-tiny"):
        job = self.write_job(name, **reference_job(of, model={"path": model}, train={"steps": 1}, debug={"dump": ""},
                                                   load={"readers": "all", "verify": True}))
        self.expect(mpirun(3, program.SLUICE, "run", job), 0, "verified")
        with h5py.File(self.output_of(job) / "metrics.h5") as metrics:
            return metrics["train/loss"][0]

    def test_the_first_loss_is_the_twins(self):
        for form in ["fp8-blocks", "nvfp4", "nvfp4-modelopt", "mxfp8", "fused-mxfp8"]:
            with self.subTest(form=form):
                losses = [self.first_loss(f"loss-{name}-{form}.toml", model)
                          for name, model in [("stored", self.model(form)), ("twin", self.twin(form))]]
                self.assertEqual(*losses)

    def content_of(self, model):
        return json.loads(sluice("verify", model, "--json").output)["content"]

    def test_a_twin_with_experts_transposed_is_compared_by_the_family_that_either_directory_tells(self):
        model = FIXTURES / MXFP4_MODEL
        twin = quantised.write_twin(model, self.directory / "model-twin")
        (twin / "config.json").unlink()
        for directories in [(model, twin), (twin, model)]:
            self.expect(sluice("verify", *directories), 0)
        path = twin / "model.safetensors"
        tensor = "model.layers.1.mlp.experts.down_proj"
        raw = bytearray(path.read_bytes())
        header, data = checkpoint.split(bytes(raw))
        raw[len(raw) - len(data) + header[tensor]["data_offsets"][1] - 1] ^= 1
        path.write_bytes(raw)
        last = header[tensor]["shape"][0] - 1
        self.expect(sluice("verify", model, twin), 65, "different (1):", f"model.layers.1.mlp.experts.{last}.down_proj.weight")

    def test_a_published_model_in_mxfp4_is_its_twin_which_has_experts_transposed(self):
        model = FIXTURES / MXFP4_MODEL
        twin = quantised.write_twin(model, self.directory / "model-twin")
        for directories in [(model, twin), (twin, model)]:
            self.expect(sluice("verify", *directories), 0)
        contents = {self.content_of(directory) for directory in (model, twin)}
        self.assertEqual(len(contents), 1)
        self.assertEqual(self.first_loss("mxfp4.toml", model, MXFP4_MODEL), self.first_loss("twin.toml", twin, MXFP4_MODEL))
        out = self.directory / "out"
        job = self.write_job("export.toml", job={"kind": "export"}, model={"path": model}, export={"path": out})
        self.expect(mpirun(3, program.SLUICE, "run", job), 0)
        self.assertNotIn("quantization_config", (out / "config.json").read_text())
        written, expected = checkpoint.read(out), checkpoint.read(twin)
        self.assertEqual(written.keys(), expected.keys())
        for name, values in expected.items():
            numpy.testing.assert_array_equal(written[name], values, name)

    def test_an_export_is_the_twin_without_quantization_config(self):
        for form, ranks in [("fp8-tensor", 3), ("int4", 1), ("mxfp4", 2), ("nvfp4", 3), ("mxfp8", 2)]:
            with self.subTest(form=form):
                out = self.directory / f"out-{form}"
                job = self.write_job(f"{form}.toml", job={"kind": "export"}, model={"path": self.model(form)},
                                     export={"path": out, "max_shard_size": "200KiB"})
                self.expect(mpirun(ranks, program.SLUICE, "run", job), 0)
                self.expect(sluice("verify", out, self.twin(form)), 0)
                self.assertNotIn("quantization_config", (out / "config.json").read_text())
                index = json.loads((out / "model.safetensors.index.json").read_text())
                self.assertEqual(index["metadata"]["total_size"], 2 * 362624)
                self.assertFalse([name for name in index["weight_map"] if "scale" in name])

    def spoiled(self, form, tensor, at, value):
        """A copy with other bytes at a place of a tensor."""
        model = self.directory / f"spoiled-{tensor}"
        shutil.copytree(self.model(form), model, copy_function=shutil.copyfile)
        for path in model.glob("*.safetensors"):
            raw = bytearray(path.read_bytes())
            header, data = checkpoint.split(bytes(raw))
            if tensor in header:
                begin = len(raw) - len(data) + header[tensor]["data_offsets"][0] + at
                raw[begin:begin + len(value)] = value
                path.write_bytes(raw)
        return model

    def test_a_code_that_is_no_number_is_found_by_tensor_and_place(self):
        model = self.spoiled("fp8-blocks", WEIGHTS, 2 * 64 + 9, b"\xff")
        self.expect(sluice("verify", model), 65, f"{WEIGHTS} (model-00001-of-00002.safetensors): 1, ", "[2, 9]")
        job = self.write_job(**reference_job("qwen3-moe-tiny", model={"path": model}, debug={"dump": ""}))
        self.expect(mpirun(1, program.SLUICE, "run", job), 65, "NaN or infinity", "experts.gate_up_proj (expert 5)")

    def test_a_scale_that_is_no_number_is_found_at_its_first_weight(self):
        model = self.spoiled("int4", WEIGHTS + "_scale", 2 * 4, b"\xc0\x7f")  # of row 1, group 0 of 4
        self.expect(sluice("verify", model), 65, f"{WEIGHTS} (model.safetensors): 16, ", "[1, 0]")

    def test_the_exponent_that_is_no_number_is_found_at_its_first_weight(self):
        model = self.spoiled("mxfp4", WEIGHTS + "_scales", 3, b"\xff")  # of row 1, group 1 of 2
        self.expect(sluice("verify", model), 65, f"{WEIGHTS} (model-00001-of-00002.safetensors): 32, ", "[1, 32]")

    def test_a_scale_of_a_whole_tensor_that_is_no_number_is_named(self):
        for form, name in [("nvfp4", "_global_scale"), ("nvfp4-modelopt", "_scale_2")]:
            model = self.spoiled(form, WEIGHTS + name, 0, b"\0\0\xc0\x7f")
            self.expect(sluice("verify", model), 65, f"{WEIGHTS}{name} (model.safetensors)", "nan", "positive number")

    def test_an_nvfp4_scale_that_is_no_number_is_found_at_its_first_weight(self):
        model = self.spoiled("nvfp4", WEIGHTS + "_scale", 4, b"\x7f")  # of row 1, group 0 of 4
        self.expect(sluice("verify", model), 65, f"{WEIGHTS} (model.safetensors): 16, ", "[1, 0]")

    def test_a_shape_that_disagrees_is_named(self):
        model = self.spoiled("int4", WEIGHTS + "_shape", 4, b"\x41\0\0\0")
        self.expect(sluice("verify", model), 65, f"{WEIGHTS}_shape (model.safetensors)", "[48, 65]", "[48, 64]")


class Families(JobTest):
    """Families as they are published: the numbers of their bfloat16 twins to the bit, in and out."""

    def published(self, form, source):
        model = self.directory / "published"
        make_quantised.write(form, source, model)
        return model, quantised.write_twin(model, self.directory / "twin")

    def numbers(self, model, of, ranks):
        """Logits, losses and gradients of two steps."""
        job = self.write_job(f"{model.name}-{ranks}.toml", **reference_job(of, model={"path": model}, train={"steps": 2},
                                                                        load={"readers": "all"}))
        self.expect(run_job(ranks, job), 0)
        with h5py.File(self.output_of(job) / "metrics.h5") as metrics:
            found = {"losses": metrics["train/loss"][:]}
        with h5py.File(self.output_of(job) / "dump.h5") as dump:
            dump.visititems(lambda name, item: found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None)
        return found

    def expect_twin(self, model, twin, of):
        self.expect(sluice("verify", model, twin), 0)
        for ranks in (1, 3):
            found, expected = self.numbers(model, of, ranks), self.numbers(twin, of, ranks)
            self.assertEqual(found.keys(), expected.keys())
            self.assertIn("logits", found)
            for name, values in expected.items():
                numpy.testing.assert_array_equal(found[name], values, name)

    def expect_exported(self, model, twin, *parts):
        out = self.directory / "out"
        job = self.write_job("export.toml", job={"kind": "export"}, model={"path": model}, export={"path": out})
        self.expect(run_job(3, job), 0, *parts)
        self.assertNotIn("quantization_config", (out / "config.json").read_text())
        self.assertEqual(quantised.stored(out), quantised.stored(twin))

    def test_deepseek_v3_in_float8_with_a_prediction_layer_that_goes_along(self):
        model, twin = self.published("fp8-blocks", FIXTURES / "deepseek_v3-tiny")
        prediction = "model.layers.3.mlp.experts.0.up_proj.weight"
        self.assertEqual(quantised.stored(model)[prediction][0], "F8_E4M3")
        self.assertEqual(quantised.stored(twin)[prediction][0], "BF16")
        self.expect_twin(model, twin, "deepseek_v3-tiny")
        self.expect_exported(model, twin, "multi-token prediction", "not trained")

    def test_minimax_m2_in_float8(self):
        model, twin = self.published("fp8-blocks", FIXTURES / "minimax_m2-tiny")
        self.expect_twin(model, twin, "minimax_m2-tiny")
        self.expect_exported(model, twin)

    def mimo(self):
        """With the keys and values of a full layer in FP8 as MiMo-V2-Flash has them: head by head in blocks that go on from keys to values,
        so that the last scale of a head's keys is that of its first values too. Beside it the numbers that they stand for."""
        source, side, (keys, values) = FIXTURES / "mimo_v2_flash-tiny", 8, (f"model.layers.1.self_attn.{part}_proj.weight" for part in "kv")
        config, tensors = json.loads((source / "config.json").read_text()), quantised.stored(source)
        plain = checkpoint.read(source)
        heads = [numpy.concatenate(head) for head in zip(*(numpy.split(plain[name], config["num_key_value_heads"]) for name in (keys, values)))]
        parts = [make_quantised.float8_blocks("", head, (side, side)) for head in heads]
        numbers = [quantised.round_to_bfloat16(quantised.FLOAT8[codes] * scales.repeat(side, 0).repeat(side, 1)[:len(codes), :codes.shape[1]])
                   for codes, scales in ((part[""][1], part["_scale_inv"][1]) for part in parts)]
        size, rows = config["head_dim"], -(-config["head_dim"] // side)  # of keys, and of their scales
        stored, twin = dict(tensors), dict(tensors)
        for name, codes_of, scales_of in [(keys, numpy.s_[:size], numpy.s_[:rows]), (values, numpy.s_[size:], numpy.s_[rows:])]:
            codes = numpy.concatenate([part[""][1][codes_of] for part in parts])
            scales = numpy.concatenate([part["_scale_inv"][1][scales_of] for part in parts])
            stored |= {name: ("F8_E4M3", codes.shape, codes.tobytes()), f"{name}_scale_inv": ("F32", scales.shape, scales.tobytes())}
            twin[name] = ("BF16", codes.shape, checkpoint.WRITE["BF16"](numpy.concatenate([each[codes_of] for each in numbers])).tobytes())
        quantization = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [side, side]}
        return (checkpoint.write_model(self.directory / "model", stored, config | {"quantization_config": quantization}),
                checkpoint.write_model(self.directory / "twin", twin, config))

    def test_mimo_v2_flash_in_float8_with_blocks_of_keys_and_values(self):
        model, twin = self.mimo()
        self.assertEqual(quantised.stored(model)["model.layers.1.self_attn.k_proj.weight_scale_inv"][1], (4, 3))  # 24 rows alone have 3
        self.expect(sluice("verify", model, twin), 0)
        self.expect_twin(model, twin, "mimo_v2_flash-tiny")
        self.expect_exported(model, twin)
        for kind, changed, status in [("export", {}, 0), ("train", {"at_end": True}, 78)]:
            out = self.directory / f"{kind}-as-source"
            tables = reference_job("mimo_v2_flash-tiny") if kind == "train" else {}
            job = self.write_job(f"{kind}-source.toml", **(tables | {"job": {"kind": kind}, "model": {"path": model},
                                                            "export": {"path": out, "format": "source"} | changed}))
            self.expect(run_job(2, job), status, *(["shares scales"] if status else []))
            if not status:
                self.assertEqual(quantised.stored(out), quantised.stored(model))

    def kimi_k2(self):
        """A model in INT4 of random weights, in widths that groups divide."""
        shape = self.directory / "shape"
        shape.mkdir()
        config = json.loads((FIXTURES / "deepseek_v3-tiny/config.json").read_text())
        (shape / "config.json").write_text(json.dumps(config | {
            "model_type": "kimi_k2", "hidden_size": 64, "moe_intermediate_size": 32, "n_group": 1, "topk_group": 1,
            "num_nextn_predict_layers": 0, "initializer_range": 0.08}))
        self.expect(sluice("synthesize", shape, self.directory / "source"), 0)
        return self.published("int4", self.directory / "source")

    def test_kimi_k2_whose_experts_are_in_int4(self):
        model, twin = self.kimi_k2()
        names = quantised.stored(model)
        self.assertIn("model.layers.1.mlp.experts.0.down_proj.weight_packed", names)
        self.assertIn("model.layers.1.mlp.shared_experts.down_proj.weight", names)
        self.expect_twin(model, twin, "deepseek_v3-tiny")
        self.expect_exported(model, twin)

    def wrapped(self, model):
        """The language model of a kimi_k25, beside a vision tower."""
        config = json.loads((model / "config.json").read_text())
        tensors = {f"language_model.{name}": tensor for name, tensor in quantised.stored(model).items()}
        tower = {"vision_tower.patch_embed.proj.weight": ("BF16", (3, 2), bytes(range(12)))}
        return checkpoint.write_model(self.directory / f"{model.name}-wrapped", tensors | tower, {
            "model_type": "kimi_k25", "text_config": config, "vision_config": {"hidden_size": 8}})

    def test_kimi_k25_in_int4_behind_the_prefix_of_its_wrapper(self):
        plain, twin = self.kimi_k2()
        model, wrapped_twin = self.wrapped(plain), self.wrapped(twin)
        self.assertIn("language_model.model.layers.1.mlp.experts.0.down_proj.weight_packed", quantised.stored(model))
        self.expect_twin(model, wrapped_twin, "deepseek_v3-tiny")
        self.expect_exported(model, wrapped_twin, "vision tower")

    def nemotron_h(self, form):
        """As ModelOpt writes it: a Mamba-2 layer and attention are plain, of the rest FP8 or NVFP4 as quant_algo says, or by module."""
        shape, plain = self.directory / f"{form}-shape", self.directory / f"{form}-plain"
        shape.mkdir()
        config = json.loads((FIXTURES / "nemotron_h-tiny/config.json").read_text())
        (shape / "config.json").write_text(json.dumps(config | {  # in widths that groups of 16 divide
            "hidden_size": 32, "intermediate_size": 48, "mamba_head_dim": 8, "moe_intermediate_size": 16, "initializer_range": 0.08,
            "moe_shared_expert_intermediate_size": 32}))
        self.expect(sluice("synthesize", shape, plain), 0)
        left = ["lm_head", "backbone.layers.0.mixer.conv1d", "backbone.layers.4.mixer*", "backbone.layers.2.mixer.*"]
        keep = re.compile(r"backbone\.layers\.[24]\.|.*(gate|conv1d)\.weight")

        def chosen(name, shape):
            return len(shape) == 2 and ".mixer." in name and not keep.match(name)

        names = [name for name, (_, shape, _) in quantised.stored(plain).items() if chosen(name, shape)]
        mixed = {name.removesuffix(".weight"): {"quant_algo": "NVFP4" if ".experts." in name else "FP8"} for name in names}
        quantise = {"FP8": make_quantised.float8_tensor, "NVFP4": make_quantised.nvfp4_modelopt,
                    "MIXED_PRECISION": make_quantised.by_module((".experts.", make_quantised.nvfp4_modelopt), ("", make_quantised.float8_tensor))}
        model = self.directory / form
        make_quantised.write(form, plain, model, (chosen, quantise[form], {
            "quant_method": "modelopt", "quant_algo": form, "ignore": left, "producer": {"name": "modelopt", "version": "0.39.0"}}
            | ({"quantized_layers": mixed} if form == "MIXED_PRECISION" else {})))
        return model, quantised.write_twin(model, self.directory / f"{form}-twin")

    def test_nemotron_h_in_float8_and_nvfp4_of_modelopt(self):
        for form in ("FP8", "NVFP4", "MIXED_PRECISION"):
            with self.subTest(form=form):
                model, twin = self.nemotron_h(form)
                self.expect(sluice("verify", model, twin), 0)
                losses = []
                for path, stored in [(twin, "dtype"), (model, "dtype"), (model, "stored")]:
                    tables = {"model": {"path": path, "dtype": "bfloat16", "frozen_format": stored}, "lora": {"rank": 2}, "debug": {"dump": ""}}
                    job = self.write_job(f"{path.name}-{stored}.toml", **reference_job("nemotron_h-tiny", train={"steps": 2}, **tables))
                    self.expect(run_job(3, job), 0)
                    with h5py.File(self.output_of(job) / "metrics.h5") as metrics:
                        losses.append(metrics["train/loss"][:].tolist())
                self.assertEqual(losses[1:], losses[:1] * 2)
                for format, expected in [("plain", twin), ("source", model)]:
                    out = self.directory / f"{form}-out-{format}"
                    job = self.write_job(f"export-{out.name}.toml", job={"kind": "export"}, model={"path": model}, export={"path": out, "format": format})
                    self.expect(run_job(2, job), 0)
                    self.assertEqual(quantised.stored(out), quantised.stored(expected))


def float8(values, like, in_blocks):
    """(codes, scales) of values by the formula, with scales as in `like`, (dtype, shape, bytes), of blocks, rows or the tensor."""
    dtype, grid, _ = like
    rows, columns = values.shape
    block = make_quantised.BLOCK if in_blocks else (1, columns) if grid == (rows, 1) else (rows, columns)
    scales, factors = numpy.zeros(-(-rows // block[0]) * -(-columns // block[1]), "<f4"), numpy.zeros_like(values)
    spread = numpy.zeros_like(values)
    for i, (row, column) in enumerate(numpy.ndindex(-(-rows // block[0]), -(-columns // block[1]))):
        place = numpy.s_[row * block[0]:(row + 1) * block[0], column * block[1]:(column + 1) * block[1]]
        largest = numpy.abs(values[place]).max()
        factors[place] = numpy.float32(448) / largest if largest > 0 else 1
        scales[i] = spread[place] = numpy.float32(1) / factors[place].flat[0]
    if dtype == "F32":
        return make_quantised.to_float8(values * factors).tobytes(), scales.tobytes()
    scales, spread = make_quantised.to_bfloat16(scales), make_quantised.to_bfloat16(spread)
    return make_quantised.to_float8(values / spread).tobytes(), make_quantised.bytes_of(dtype, scales)


class AsTheSource(JobTest):
    """Exports with export.format = "source"."""

    def export(self, name, ranks=3, **tables):
        """The directory that a job writes."""
        out = self.directory / f"out-{name}"
        plain = {"job": {"kind": "export"}, "export": {}} | tables
        plain["export"] = {"path": out, "format": "source"} | plain["export"]
        self.expect(run_job(ranks, self.write_job(f"{name}.toml", **plain)), 0)
        return out

    def train(self, model, name, of="qwen3-moe-tiny", **tables):
        """Directories that training ends with, of the same weights: in plain numbers, and as the source."""
        outs = []
        for form in ("plain", "source"):
            changes = dict(tables, model={"path": model, "dtype": "bfloat16"}, debug={"dump": ""},
                           optimizer={"master": "none", "learning_rate": 0.01}, train={"steps": 2} | tables.get("train", {}))
            job = reference_job(of, **changes)
            job["export"] = {"at_end": True, "format": form} | tables.get("export", {})
            job["job"] = {"kind": "train"}
            outs.append(self.export(f"{name}-{form}", **job))
        return outs

    def expect_formula(self, model, plain, out, is_changed):
        """Of what changed codes and scales are those of the plain numbers, and the rest is the source's."""
        source, written, numbers = quantised.stored(model), quantised.stored(out), quantised.stored(plain)
        self.assertEqual(written.keys(), source.keys())
        changed = 0
        for name, (dtype, shape, data) in source.items():
            base = name.removesuffix("_scale_inv").removesuffix("_scale")
            if not is_changed(base):
                self.assertEqual(written[name], source[name], name)
            elif base != name:
                continue
            elif dtype == "F8_E4M3":
                scales = name + "_scale_inv" if name + "_scale_inv" in source else name + "_scale"
                values = checkpoint.READ["BF16"](numbers[name][2]).reshape(shape)
                self.assertEqual((written[name][2], written[scales][2]), float8(values, source[scales], scales.endswith("_inv")), name)
                changed += written[name][2] != data  # an expert that no token met may stay
            else:
                self.assertEqual(written[name], numbers[name], name)
        self.assertGreater(changed, 0)
        self.expect(sluice("verify", out), 0)

    def test_what_no_job_has_changed_is_written_byte_for_byte(self):
        for form, ranks, of in [*zip(FORMS, (3, 2, 3, 1, 2), 5 * [None]), (None, 3, MXFP4_MODEL)]:
            with self.subTest(form=form, of=of):
                model = FIXTURES / of if of else fixture(form)
                out = self.export(f"{form}", ranks, model={"path": model}, export={"max_shard_size": "200KiB"})
                self.assertEqual(quantised.stored(out), quantised.stored(model))
                self.assertEqual((out / "config.json").read_bytes(), (model / "config.json").read_bytes())
                self.expect(sluice("verify", out, model), 0)

    def test_mxfp8_of_every_dialect_is_written_byte_for_byte(self):
        for form, ranks in [("mxfp8", 3), ("mxfp8-modelopt", 2), ("mxfp8-compressed", 1), ("fused-mxfp8", 3)]:
            with self.subTest(form=form):
                model = self.directory / f"model-{form}"
                make_quantised.write(form, make_quantised.SOURCE, model)
                out = self.export(form, ranks, model={"path": model}, export={"max_shard_size": "200KiB"})
                self.assertEqual(quantised.stored(out), quantised.stored(model))
                self.assertEqual((out / "config.json").read_bytes(), (model / "config.json").read_bytes())

    def test_a_prediction_layer_goes_along_byte_for_byte(self):
        model = self.directory / "model"
        make_quantised.write("fp8-blocks", FIXTURES / "deepseek_v3-tiny", model)
        (model / "hf_quant_config.json").write_text("{}")
        copied = self.export("out", model={"path": model})
        self.assertEqual(quantised.stored(copied), quantised.stored(model))
        plain, out = self.train(model, "trained", of="deepseek_v3-tiny")
        has_file = [(directory / "hf_quant_config.json").exists() for directory in (copied, out, plain)]
        self.assertEqual(has_file, [True, True, False])
        self.expect_formula(model, plain, out, lambda name: ".layers.3." not in name and "e_score_correction_bias" not in name)

    def test_trained_weights_become_float8_by_the_formula_and_frozen_ones_stay(self):
        for form in ("fp8-blocks", "fp8-rows", "fp8-tensor"):
            with self.subTest(form=form):
                plain, out = self.train(fixture(form), form, train={"freeze": ["*self_attn*", "*embed_tokens*"]},
                                        export={"max_shard_size": "200KiB"})
                self.expect_formula(fixture(form), plain, out,
                                    lambda name: "self_attn" not in name and "embed" not in name and "input_scale" not in name)

    def test_merged_adapters_change_the_weights_that_they_adapt(self):
        model = fixture("fp8-blocks")
        plain, out = self.train(model, "merged", lora={"rank": 2, "targets": ["q_proj", "mlp.experts.down_proj"]},
                                export={"adapters": "merge"})
        self.expect_formula(model, plain, out, lambda name: "q_proj" in name or "down_proj" in name)

    def test_changed_4_bit_weights_are_refused_with_what_to_use(self):
        for form in ("int4", "mxfp4"):
            job = reference_job("qwen3-moe-tiny", model={"path": fixture(form)}, debug={"dump": ""})
            job["export"] = {"path": self.directory / "out", "at_end": True, "format": "source"}
            for program_of in (("check",), ("run",)):
                self.expect(sluice(*program_of, self.write_job(f"{form}.toml", **job)), 78, "export.format", form, "plain")

    def test_there_is_no_source_without_published_weights(self):
        job = {"job": {"kind": "export"}, "export": {"path": self.directory / "out", "format": "source"}}
        model = {"path": FIXTURES / "qwen3-moe-tiny", "init": "random"}
        self.expect(sluice("check", self.write_job("random.toml", **job, model=model)), 78, "export.format", "random")
        job["export"]["experts"] = "fused"
        self.expect(sluice("check", self.write_job("fused.toml", **job, model={"path": fixture("fp8-rows")})), 78, "export.experts")

    def test_check_tells_the_bytes(self):
        job = self.write_job(job={"kind": "export"}, model={"path": fixture("fp8-blocks")},
                             export={"path": self.directory / "out", "format": "source"})
        result = sluice("check", job)
        self.expect(result, 0, f"{len(quantised.stored(fixture('fp8-blocks')))} tensors")


if __name__ == "__main__":
    unittest.main()
