"""sluice verify: is a model directory sound, and do two say the same?"""
import json
import os
import shutil
import unittest

import checkpoint
from program import FIXTURES, JobTest, sluice

MODELS = ["bailing_moe_v2-tiny", "qwen3_next-tiny", "deepseek_v2-tiny", "deepseek_v3-tiny", "deepseek_v32-tiny", "glm_moe_dsa-tiny", "glm4_moe_lite-tiny", "dots1-tiny", "ernie4_5_moe-tiny", "glm4_moe-tiny", "gpt_oss-tiny", "hy_v3-tiny", "minimax_m2-tiny", "mistral4-tiny", "mixtral-tiny", "olmoe-tiny", "qwen2_moe-tiny", "qwen3-moe-mixed", "qwen3-moe-tiny", "qwen3-tiny-tied",
          "qwen3-tiny-yarn", "qwen3_5-moe-tiny", "qwen3_5-moe-vlm", "qwen3_5-moe-vlm-fused", "qwen3_5-tiny", "solar_open-tiny", "mellum-tiny", "exaone_moe-tiny", "lfm2_moe-tiny", "granitemoe-tiny", "afmoe-tiny", "laguna-tiny", "bailing_hybrid-tiny", "granitemoehybrid-tiny", "gemma4-tiny", "nemotron_h-tiny", "nemotron_h-latent-tiny", "kimi_linear-tiny", "hunyuan_v1_moe-tiny", "minimax_m3-tiny", "step3p5-tiny", "cohere2_moe-tiny", "cohere2_moe-rms-tiny", "mimo_v2_flash-tiny"]


class Verify(JobTest):
    def copy(self, name, where="copy"):
        target = self.directory / where
        shutil.copytree(FIXTURES / name, target, copy_function=shutil.copyfile)
        return target

    def overwrite(self, model, tensor, change):
        """Passes a tensor's bytes through `change`."""
        for path in model.glob("*.safetensors"):
            raw = path.read_bytes()
            header, data = checkpoint.split(raw)
            if tensor not in header:
                continue
            first, last = header[tensor]["data_offsets"]
            front = raw[:len(raw) - len(data)]  # length and header, as they are
            path.write_bytes(front + data[:first] + change(data[first:last]) + data[last:])
            return path.name
        raise AssertionError(f"{model} has no {tensor}")

    def rewrite(self, model, keep=lambda name: True, rename=lambda name: name):
        """One file with the tensors that are kept, in the same order, under other names."""
        header, data = {}, b""
        for path in sorted(model.glob("*.safetensors")):
            entries, content = checkpoint.split(path.read_bytes())
            entries.pop("__metadata__", None)
            for name, entry in entries.items():
                if not keep(name):
                    continue
                first, last = entry["data_offsets"]
                header[rename(name)] = entry | {"data_offsets": [len(data), len(data) + last - first]}
                data += content[first:last]
            path.unlink()
        (model / "model.safetensors.index.json").unlink(missing_ok=True)
        (model / "model.safetensors").write_bytes(checkpoint.joined(header, data))

    def json_of(self, *words):
        result = sluice("verify", *words, "--json")
        self.expect(result, 0)
        return json.loads(result.output)


class OneDirectory(Verify):
    def test_every_fixture_is_sound(self):
        for name in MODELS:
            with self.subTest(model=name):
                self.expect(sluice("verify", FIXTURES / name), 0, "content", name)

    def test_json_has_every_tensor(self):
        found = self.json_of(FIXTURES / "qwen3_5-moe-vlm-fused")
        tensors = {tensor["name"]: tensor for tensor in found["tensors"]}
        self.assertEqual(found["files"], 2)
        self.assertEqual(found["non_finite"], 0)
        self.assertEqual(tensors["model.layers.3.mlp.experts.9.up_proj.weight"]["shape"], [48, 64])
        self.assertEqual(tensors["model.layers.3.mlp.experts.9.up_proj.weight"]["dtype"], "bfloat16")
        self.assertEqual(found["bytes"], sum(size * 2 for size in map(elements, found["tensors"])))
        self.assertNotIn("model.layers.3.mlp.experts.gate_up_proj", tensors)
        self.assertRegex(found["content"], "^[0-9a-f]{32}$")

    def test_nan_is_named(self):
        model = self.copy("qwen3-moe-mixed")
        tensor = "model.layers.2.mlp.experts.6.up_proj.weight"
        file = self.overwrite(model, tensor, lambda data: data[:100] + b"\xc0\x7f\x80\xff" + data[104:])
        result = sluice("verify", model)
        self.expect(result, 65, "2 values", "in 1 tensor", f"{tensor} ({file}): 2")
        self.expect(sluice("verify", model, "--json"), 65, '"non_finite": 2')

    def test_an_index_that_is_broken(self):
        model = self.copy("qwen3-moe-mixed")
        index = json.loads((model / "model.safetensors.index.json").read_text())
        files = sorted(set(index["weight_map"].values()))
        index["weight_map"]["model.norm.weight"] = files[0]
        (model / "model.safetensors.index.json").write_text(json.dumps(index))
        self.expect(sluice("verify", model), 65, "model.norm.weight", files[0])
        (model / files[1]).unlink()
        self.expect(sluice("verify", model), 65, files[1])

    def test_a_file_that_is_cut_off(self):
        model = self.copy("qwen3-moe-tiny")
        os.truncate(model / "model.safetensors", (model / "model.safetensors").stat().st_size - 1)
        self.expect(sluice("verify", model), 65, "model.safetensors")

    def test_no_directory(self):
        self.expect(sluice("verify", self.directory / "absent"), 65, "no such directory")
        self.assertEqual(sluice("verify").status, 64)


class TwoDirectories(Verify):
    def test_every_fixture_equals_itself(self):
        for name in MODELS:
            with self.subTest(model=name):
                self.assertTrue(self.json_of(FIXTURES / name, FIXTURES / name)["equal"])

    def test_layout_prefix_and_sharding_do_not_matter(self):
        vlm, fused = FIXTURES / "qwen3_5-moe-vlm", FIXTURES / "qwen3_5-moe-vlm-fused"
        found = self.json_of(vlm, fused)
        self.assertEqual((found["equal"], found["spare_in_a"]), (True, []))
        self.assertEqual(found["spare_in_b"], ["mtp.fc.weight", "mtp.norm.weight"])
        self.assertEqual(found["a"]["content"], found["b"]["content"])
        result = sluice("verify", vlm, fused)
        self.expect(result, 0, "needs (2)", "mtp.fc.weight")

    def test_spelling_does_not_matter(self):
        """The names that Mixtral is published under and those of transformers' module tree."""
        published = FIXTURES / "mixtral-tiny"
        plain = self.copy("mixtral-tiny")
        self.rewrite(plain, rename=checkpoint.plain_name)
        found = self.json_of(published, plain)
        self.assertEqual((found["equal"], found["spare_in_a"], found["spare_in_b"]), (True, [], []))
        self.assertEqual(found["a"]["content"], found["b"]["content"])
        self.assertIn("model.layers.1.mlp.experts.7.up_proj.weight", [tensor["name"] for tensor in found["a"]["tensors"]])

    def test_one_file_or_many_in_other_wrappers(self):
        model = self.copy("qwen3-moe-mixed")
        self.rewrite(model, rename=lambda name: "language_model." + name)
        self.expect(sluice("verify", FIXTURES / "qwen3-moe-mixed", model), 0)

    def test_a_flipped_bit_is_named(self):
        for name, tensor, part in [
                ("qwen3-tiny-tied", "model.norm.weight", "model.norm.weight"),
                ("qwen3_5-moe-vlm-fused", "model.language_model.layers.1.mlp.experts.gate_up_proj",
                 "model.layers.1.mlp.experts.9.up_proj.weight")]:
            with self.subTest(model=name):
                model = self.copy(name, name)
                self.overwrite(model, tensor, lambda data: data[:-1] + bytes([data[-1] ^ 1]))
                result = sluice("verify", FIXTURES / name, model)
                self.expect(result, 65, "differ:", "different (1):", f"{part}: bfloat16 [")
                different = json.loads(sluice("verify", FIXTURES / name, model, "--json").output.split("\nsluice: ")[0])
                self.assertEqual([tensor["name"] for tensor in different["different"]], [part])

    def test_a_tensor_that_is_missing(self):
        model = self.copy("qwen3-moe-tiny")
        missing = "model.layers.1.mlp.experts.5.down_proj.weight"
        self.rewrite(model, keep=lambda name: name != missing)
        for directories in [(model, FIXTURES / "qwen3-moe-tiny"), (FIXTURES / "qwen3-moe-tiny", model)]:
            result = sluice("verify", *directories)
            self.expect(result, 65, "[verify.differs]", f"{FIXTURES / 'qwen3-moe-tiny'} (1):", missing)
            self.expect_once(result, missing)

    def test_a_head_that_is_a_copy_of_the_embedding(self):
        tied = FIXTURES / "qwen3-tiny-tied"
        model = self.copy("qwen3-tiny-tied")
        header, data = checkpoint.split((model / "model.safetensors").read_bytes())
        entry = header["model.embed_tokens.weight"]
        first, last = entry["data_offsets"]
        header["lm_head.weight"] = entry | {"data_offsets": [len(data), len(data) + last - first]}
        (model / "model.safetensors").write_bytes(checkpoint.joined(header, data + data[first:last]))
        self.expect(sluice("verify", tied, model), 0, "lm_head.weight")
        (model / "config.json").unlink()
        self.expect(sluice("verify", model, tied), 0)
        self.overwrite(model, "lm_head.weight", lambda data: bytes(len(data)))
        self.expect(sluice("verify", model, tied), 65, "only in", "lm_head.weight")

    def test_other_models(self):
        result = sluice("verify", FIXTURES / "qwen3-moe-tiny", FIXTURES / "qwen3-moe-mixed")
        self.expect(result, 65, "only in", "different (")


def elements(tensor):
    count = 1
    for size in tensor["shape"]:
        count *= size
    return count


if __name__ == "__main__":
    unittest.main(verbosity=2)
