"""Model directories that are broken, cut off or malicious: three ranks end within seconds, with one explanation that names
the file and what is wrong with it, and the exit code for bad data. Parsers have their own tests; these go all the way."""
import json
import os
import pathlib
import shutil
import struct
import time
import unittest

import checkpoint
import program
import quantised
from checkpoint import joined, split
from program import FIXTURES, JobTest, reference_job
from suite import run_job

FIXTURE = FIXTURES / "qwen3-moe-tiny"
SHARDED = FIXTURES / "qwen3-moe-mixed"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
NORM = "model.norm.weight"


class Hostile(JobTest):
    def copy_of(self, fixture):
        return shutil.copytree(fixture, self.directory / f"model{len(os.listdir(self.directory))}",
                               ignore=shutil.ignore_patterns("*.h5"))

    def load(self, model, **settings):
        job = self.write_job(f"load-{model.name}.toml", job={"kind": "load"}, model={"path": model}, load=settings)
        return run_job(3, job)

    def expect_refused(self, model, *parts, status=65, **settings):
        result = self.load(model, **settings)
        self.expect(result, status, *parts)
        self.expect_prompt(result)
        self.expect_once(result, f"exit code {status}")
        self.assertNotIn("\x1b", result.output)
        return result


class Files(Hostile):
    """model.safetensors as a whole."""

    def expect_bytes_refused(self, raw, *parts, sparse_to=0):
        model = self.copy_of(FIXTURE)
        (model / WEIGHTS).write_bytes(raw)
        if sparse_to:
            os.truncate(model / WEIGHTS, sparse_to)
        with self.subTest(expected=parts):
            self.expect_refused(model, str(model / WEIGHTS), *parts)

    def test_too_short_for_a_length(self):
        for size in [0, 1, 7]:
            self.expect_bytes_refused(bytes(size), f" {size} bytes", "(rule prefix)")
        self.expect_bytes_refused(bytes(8), "(rule valid-json)")

    def test_wrong_header_lengths(self):
        size = (FIXTURE / WEIGHTS).stat().st_size
        rest = (FIXTURE / WEIGHTS).read_bytes()[8:]
        for length, rule in [(1, "valid-json"), (size - 7, "header-fits"), (2**63, "header-limit"),
                             (2**64 - 8, "header-limit"), (2**64 - 1, "header-limit")]:
            self.expect_bytes_refused(struct.pack("<Q", length) + rest, f"(rule {rule})")
        self.expect_bytes_refused(struct.pack("<Q", 100_000_001), "(rule header-limit)", sparse_to=200_000_000)

    def test_files_of_other_formats(self):
        self.expect_bytes_refused(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n", "git lfs pull")
        self.expect_bytes_refused(b"<!DOCTYPE html><html>404</html>", "web page")
        self.expect_bytes_refused(b"PK\x03\x04" + bytes(64), "pickle")

    def test_a_file_that_is_cut_off(self):
        raw = (FIXTURE / WEIGHTS).read_bytes()
        self.expect_bytes_refused(raw[:-1], "(rule offset-range)", "cut short")
        self.expect_bytes_refused(raw + b"\0", "(rule no-tail)", "1 bytes after")

    def test_what_is_not_a_regular_file(self):
        for make, found in [(os.mkfifo, "is a FIFO"), (os.mkdir, "is a directory"),
                            (lambda path: os.symlink("/dev/zero", path), "is a device"),
                            (lambda path: os.symlink("nowhere", path), "No such file")]:
            model = self.copy_of(FIXTURE)
            (model / WEIGHTS).unlink()
            make(model / WEIGHTS)
            with self.subTest(found=found):
                self.expect_refused(model, str(model / WEIGHTS), found)

    def test_links_into_a_cache_are_followed(self):
        model = self.copy_of(FIXTURE)
        (self.directory / "blob").write_bytes((model / WEIGHTS).read_bytes())
        (model / WEIGHTS).unlink()
        (model / WEIGHTS).symlink_to(pathlib.Path("..") / "blob")
        self.expect(self.load(model), 0)

    def test_data_that_begins_at_an_odd_offset(self):
        header, data = split((FIXTURE / WEIGHTS).read_bytes())
        model = self.copy_of(FIXTURE)
        text = json.dumps(header).encode()
        (model / WEIGHTS).write_bytes(joined(text + b" " * (1 - len(text) % 2), data))
        self.expect(self.load(model, verify=True), 0)

    def test_only_pickles(self):
        model = self.copy_of(FIXTURE)
        (model / WEIGHTS).rename(model / "pytorch_model.bin")
        self.expect_refused(model, "pickle", "(pytorch_model.bin)", "to safetensors")


class Headers(Hostile):
    """The JSON of model.safetensors."""

    @classmethod
    def setUpClass(cls):
        cls.header, cls.data = split((FIXTURE / WEIGHTS).read_bytes())

    def expect_header_refused(self, header, *parts):
        model = self.copy_of(FIXTURE)
        (model / WEIGHTS).write_bytes(joined(header, self.data))
        with self.subTest(expected=parts):
            self.expect_refused(model, str(model), *parts)

    def changed(self, **fields):
        """The header with other fields of one tensor."""
        return self.header | {NORM: self.header[NORM] | fields}

    def text_with(self, extra):
        """The header with more text behind its last entry."""
        return json.dumps(self.header)[:-1].encode() + extra

    def test_text_that_is_not_json(self):
        text = json.dumps(self.header).encode()
        self.expect_header_refused(text.replace(b"model.norm", b"model.n\xffrm"), "(rule valid-utf8)")
        self.expect_header_refused(b"\xef\xbb\xbf" + text, "(rule valid-json)", "byte order mark")
        self.expect_header_refused(text + b"\0", "(rule valid-json)", "NUL")
        self.expect_header_refused(text + b"{}", "(rule valid-json)")
        self.expect_header_refused(text[:-1] + b',"', "(rule valid-json)")

    def test_text_without_end(self):
        self.expect_header_refused(self.text_with(b',"w":{"x":' + b"[" * 100_000), "(rule nesting)")
        self.expect_header_refused(self.text_with(b',"w":{"shape":[' + b"9" * 10_000_000 + b"]}}"), "(rule valid-json)")

    def test_names_given_twice(self):
        entry = json.dumps(self.header[NORM])
        self.expect_header_refused(self.text_with(f',"{NORM}":{entry}}}'.encode()), "(rule duplicate-key)", NORM)
        self.expect_header_refused(self.text_with(f',"\\u006dodel.norm.weight":{entry}}}'.encode()), "(rule duplicate-key)",
                                   NORM)

    def test_offsets(self):
        begin, end = self.header[NORM]["data_offsets"]
        for offsets, rule in [([end, begin], "offset-order"), ([begin, 2**62], "offset-range"),
                              ([begin, end, end], "offset-pair"), ([begin - 2, end - 2], "no-overlap"),
                              ([-1, end], "offset-entries")]:
            self.expect_header_refused(self.changed(data_offsets=offsets), f"(rule {rule})", NORM)
        header = dict(self.header)
        del header[NORM]
        self.expect_header_refused(header, "(rule no-")

    def test_shapes(self):
        for shape, rule in [([2**32, 2**32], "shape-overflow"), ([2, 2**63 - 1], "shape-overflow"),
                            ([2, 2**64 - 2], "shape-entries"), ([-1], "shape-entries"), ([64.0], "shape-entries"),
                            (["64"], "shape-entries"), ([None], "shape-entries"), ([1] * 17, "shape-rank"),
                            ([63], "size-matches-shape"), ([65], "size-matches-shape")]:
            self.expect_header_refused(self.changed(shape=shape), f"(rule {rule})", NORM)

    def test_element_types(self):
        self.expect_header_refused(self.changed(dtype="F4"), "(rule dtype)", "'F4'")
        self.expect_header_refused(self.changed(dtype="I16"), "[weights.mismatch]", "int16", NORM)

    def test_names_are_shown_without_their_control_codes(self):
        header = dict(self.header)
        header["evil\x1b[31m\nname"] = header.pop(NORM)
        self.expect_header_refused(header, "evil\\x1b[31m\\x0aname", "missing (1):", NORM)


class Indexes(Hostile):
    """model.safetensors.index.json."""

    def expect_index_refused(self, change, *parts):
        model = self.copy_of(SHARDED)
        index = json.loads((model / INDEX).read_text())
        change(index["weight_map"])
        (model / INDEX).write_text(json.dumps(index))
        with self.subTest(expected=parts):
            return self.expect_refused(model, *parts)

    def test_file_names_outside_the_directory(self):
        for name in ["../x", "/etc/passwd", "a/../../x", "", "."]:
            self.expect_index_refused(lambda names, name=name: names.update({NORM: name}),
                                      "outside the model", f'"{name}"', "Nothing was opened")

    def test_everything_that_is_wrong_at_once(self):
        def change(names):
            first, *others = sorted(set(names.values()))
            names["model.extra.weight"] = first
            names[NORM] = next(file for file in others if file != names[NORM])

        self.expect_index_refused(change, "model.extra.weight is missing", f"{NORM} is in", INDEX + " says")

    def test_a_tensor_in_two_files(self):
        model = self.copy_of(SHARDED)
        source, target = sorted(model.glob("*.safetensors"))[:2]
        header, _ = split(source.read_bytes())
        name = next(name for name in header if name != "__metadata__")
        other, data = split(target.read_bytes())
        size = header[name]["data_offsets"][1] - header[name]["data_offsets"][0]
        other[name] = header[name] | {"data_offsets": [len(data), len(data) + size]}
        target.write_bytes(joined(other, data + bytes(size)))
        self.expect_refused(model, f"tensor {name} ", "two files", source.name, target.name)

    def test_a_wrong_total_is_a_warning(self):
        model = self.copy_of(SHARDED)
        index = json.loads((model / INDEX).read_text())
        index["metadata"]["total_size"] = 5
        (model / INDEX).write_text(json.dumps(index))
        result = self.load(model)
        self.expect(result, 0, "metadata.total_size is 5")

    def test_text_that_is_no_index(self):
        model = self.copy_of(SHARDED)
        for text, found in [("", "is not JSON"), ("[]", "must be"), ('{"weight_map": 5}', "must be an object"),
                            ("{}", 'no object "weight_map"'), ("[" * 100_000, "must be")]:
            (model / INDEX).write_text(text)
            with self.subTest(found=found):
                self.expect_refused(model, str(model / INDEX), found)


class Configs(Hostile):
    """config.json: found while ranks agree, so the explanation comes from there."""

    def expect_config_refused(self, text, *parts):
        model = self.copy_of(FIXTURE)
        (model / "config.json").unlink()
        if text is not None:
            (model / "config.json").write_text(text)
        with self.subTest(expected=parts):
            result = self.load(model)
            self.expect(result, 65, str(model / "config.json"), *parts)
            self.expect_prompt(result)
            self.expect_once(result, str(model / "config.json"))

    def config(self, **changes):
        return json.dumps(json.loads((FIXTURE / "config.json").read_text()) | changes)

    def test_what_cannot_be_read(self):
        self.expect_config_refused(None, "No such file")
        self.expect_config_refused(self.config()[:100], "JSON")
        self.expect_config_refused("[" * 100_000, "64 levels")

    def test_values_that_describe_no_model(self):
        self.expect_config_refused(self.config(hidden_size="64"), "hidden_size", "expected")
        self.expect_config_refused(self.config(num_experts_per_tok=9), "num_experts_per_tok", "expected")
        self.expect_config_refused(self.config(model_type="gpt5"), "model_type 'gpt5'", "not supported")

    def test_other_experts_than_the_weights_have(self):
        model = self.copy_of(FIXTURE)
        (model / "config.json").write_text(self.config(num_experts=9, num_local_experts=9))
        self.expect_refused(model, "missing", "experts.8.gate_proj.weight", "another checkpoint")

    def test_code_in_the_directory_is_never_run(self):
        model = self.copy_of(FIXTURE)
        (model / "config.json").write_text(self.config(auto_map={"AutoModel": "evil.Model"}))
        self.expect(self.load(model), 0, "auto_map is ignored")


class Quantised(Hostile):
    """Codes and scales that do not belong together, in every form: three ranks name the tensor, its file, what it is and what is
    expected."""

    WEIGHTS = "model.layers.2.mlp.experts.5.up_proj.weight"  # [48, 64]
    CODES = {"fp8-blocks": "", "fp8-rows": "", "fp8-tensor": "", "int4": "_packed", "mxfp4": "_blocks"}
    SCALES = {"fp8-blocks": "_scale_inv", "fp8-rows": "_scale", "fp8-tensor": "_scale", "int4": "_scale", "mxfp4": "_scales"}
    NOT_A_NUMBER = {"F32": b"\0\0\xc0\x7f", "BF16": b"\xc0\x7f", "U8": b"\xff"}

    def model(self, form, change, **config):
        """The form's fixture as one file, with its tensors passed through `change` and other fields of quantization_config."""
        source = FIXTURES / f"qwen3-moe-tiny-{form}"
        model = self.directory / f"model{len(os.listdir(self.directory))}"
        model.mkdir()
        tensors = quantised.stored(source)
        change(tensors)
        checkpoint.write_tensors(model / WEIGHTS, tensors)
        text = json.loads((source / "config.json").read_text())
        text["quantization_config"] |= config
        (model / "config.json").write_text(json.dumps(text))
        return model

    def expect_changed_refused(self, form, change, *parts, **config):
        with self.subTest(form=form, expected=parts):
            self.expect_refused(self.model(form, change, **config), *parts, "Likely cause")

    @staticmethod
    def reshaped(tensors, name, shape):
        dtype, old, data = tensors[name]
        size = len(data)
        for length in old:
            size //= length
        for length in shape:
            size *= length
        tensors[name] = (dtype, tuple(shape), data[:size] + bytes(size - len(data)))

    def test_codes_without_scales(self):
        for form in self.CODES:
            codes, scales = self.WEIGHTS + self.CODES[form], self.WEIGHTS + self.SCALES[form]
            self.expect_changed_refused(form, lambda tensors: tensors.pop(scales), f"{codes} ({WEIGHTS})", "without", scales)

    def test_scales_without_codes(self):
        for form in self.CODES:
            codes, scales = self.WEIGHTS + self.CODES[form], self.WEIGHTS + self.SCALES[form]
            self.expect_changed_refused(form, lambda tensors: tensors.pop(codes), f"{scales} ({WEIGHTS})", "no quantised weights",
                                        f"{self.WEIGHTS}")

    def test_grids_of_the_wrong_shape(self):
        for form, shape, expected in [("fp8-blocks", [4, 3], "expected [3, 3]"), ("fp8-rows", [49, 1], "[48, 1] (for each row)"),
                                      ("fp8-tensor", [2], "or [1]"), ("int4", [48, 5], "groups of equal size"),
                                      ("mxfp4", [48, 3], "expected [48, 2]")]:
            scales = self.WEIGHTS + self.SCALES[form]
            self.expect_changed_refused(form, lambda tensors: self.reshaped(tensors, scales, shape),
                                        f"{scales} ({WEIGHTS})", str(shape), expected)

    def test_groups_and_shapes_that_disagree(self):
        blocks, shape = self.WEIGHTS + "_blocks", self.WEIGHTS + "_shape"
        self.expect_changed_refused("mxfp4", lambda tensors: self.reshaped(tensors, blocks, [48, 4, 8]),
                                    f"{blocks} ({WEIGHTS})", "[48, 4, 8]", "groups of 32")
        self.expect_changed_refused("int4", lambda tensors: tensors.update({shape: ("I32", (2,), struct.pack("<2i", 48, 65))}),
                                    f"{shape} ({WEIGHTS})", "[48, 65]", "[48, 64]")
        self.expect_changed_refused("int4", lambda tensors: tensors.pop(shape), f"without {shape}")
        self.expect_changed_refused("fp8-blocks", lambda tensors: None, "[2, 2]", "32 x 32", "quantization_config",
                                    weight_block_size=[32, 32])

    def test_a_config_that_names_another_form(self):
        forms = {"fp8-blocks": "FP8", "fp8-rows": "FP8", "fp8-tensor": "FP8", "int4": "INT4", "mxfp4": "MXFP4"}
        for form, name in forms.items():
            other = "mxfp4" if name == "FP8" else "fp8"
            self.expect_changed_refused(form, lambda tensors: None, f"weights in {name}",
                                        f"({WEIGHTS})", f"weights in {other.upper()}", quant_method=other)

    def expect_not_a_number(self, form, name, at, value):
        def change(tensors):
            dtype, shape, data = tensors[name]
            tensors[name] = (dtype, shape, data[:at] + value + data[at + len(value):])

        with self.subTest(form=form, name=name):
            model = self.model(form, change)
            result = run_job(3, self.write_job(f"train-{model.name}.toml", **reference_job("qwen3-moe-tiny", model={"path": model})))
            self.expect(result, 65, str(model), "NaN", "layers.2.mlp.experts.gate_up_proj (expert 5)", "sluice verify")

    def test_codes_that_are_no_numbers(self):
        for form in ["fp8-blocks", "fp8-rows", "fp8-tensor"]:  # those of 4 bits are numbers all
            for code in [b"\x7f", b"\xff"]:
                self.expect_not_a_number(form, self.WEIGHTS, 2 * 64 + 9, code)

    def test_scales_that_are_no_numbers(self):
        for form, dtype in {"fp8-blocks": "F32", "fp8-rows": "BF16", "fp8-tensor": "F32", "int4": "BF16", "mxfp4": "U8"}.items():
            self.expect_not_a_number(form, self.WEIGHTS + self.SCALES[form], 0, self.NOT_A_NUMBER[dtype])


class Shrinking(Hostile):
    def test_a_file_that_is_cut_while_it_is_read(self):
        model = self.copy_of(FIXTURE)
        job = self.write_job("job.toml", job={"kind": "load"}, model={"path": model}, load={"chunk": "64KiB"})
        words = program.with_fault("load.chunk", 0, 2, "delay")  # two seconds, in which no slot is freed
        started = program.start_mpirun(3, *words, "run", job)
        try:
            program.wait_until(lambda: "injected fault" in started.output(), "the load")
            os.truncate(model / WEIGHTS, 200_000)
            cut = time.monotonic()
        finally:
            result = started.finish()
        self.expect(result, 65, str(model / WEIGHTS), "too early")
        self.expect_once(result, "exit code 65")
        self.assertLess(result.ended - cut, 2 + program.GUARD_SECONDS)


if __name__ == "__main__":
    unittest.main()
