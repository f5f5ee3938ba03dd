"""Language models in directories with a vision tower: the tower is carried along byte for byte, and so is an indexer; the language
model has the numbers that it has by itself, under the names that it is published with there.
"""
import json
import unittest

import checkpoint
import h5py
import numpy as np
from program import FIXTURES, JobTest, reference_job
from suite import run_job

# Of small vision towers and their projectors, as they are published.
GEMMA4_TOWER = {"model.embed_vision.embedding_projection.weight": (16, 16), "model.vision_tower.patch_embedder.input_proj.weight": (16, 48),
                "model.vision_tower.patch_embedder.position_embedding_table": (2, 16, 16)} | {
                    f"model.vision_tower.encoder.layers.0.{name}.weight": shape for name, shape in {
                        "input_layernorm": (16,), "mlp.down_proj.linear": (16, 24), "mlp.gate_proj.linear": (24, 16), "mlp.up_proj.linear": (24, 16),
                        "post_attention_layernorm": (16,), "post_feedforward_layernorm": (16,), "pre_feedforward_layernorm": (16,),
                        "self_attn.k_norm": (8,), "self_attn.k_proj.linear": (16, 16), "self_attn.o_proj.linear": (16, 16),
                        "self_attn.q_norm": (8,), "self_attn.q_proj.linear": (16, 16), "self_attn.v_proj.linear": (16, 16)}.items()}
MINIMAX_M3_TOWER = {"vision_tower.vision_model.embeddings.patch_embedding.weight": (16, 3, 2, 4, 4),
                    "vision_tower.vision_model.pre_layrnorm.bias": (16,), "multi_modal_projector.linear_1.weight": (20, 16),
                    "patch_merge_mlp.linear_2.weight": (20, 20), "vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight": (24, 16)}

STEP3P7_TOWER = {"vision_model.conv1.weight": (16, 3, 4, 4), "vision_model.ln_pre.bias": (16,), "vit_large_projector.weight": (20, 64),
                 "vision_model.transformer.resblocks.0.attn.in_proj_weight": (48, 16)}


def config_of(model):
    return json.loads((FIXTURES / model / "config.json").read_text())


def split(tensor, parts):
    """Equal parts of a tensor, by its first dimension."""
    dtype, (rows, *rest), data = tensor
    size = len(data) // parts
    return [(dtype, (rows // parts, *rest), data[part * size:(part + 1) * size]) for part in range(parts)]


def one(tensor):
    """A matrix of a tensor that has it alone."""
    dtype, (_, *shape), data = tensor
    return dtype, tuple(shape), data


def minimax_m3_names(name, tensor):
    """[(name, tensor)] of a tensor of the module tree as MiniMax-M3 is published."""
    name = "language_model." + name
    if name.endswith("experts.gate_up_proj") or name.endswith("experts.down_proj"):
        block = name.rpartition("mlp.experts.")[0] + "block_sparse_moe.experts"
        out = []
        for number, expert in enumerate(split(tensor, tensor[1][0])):
            parts = zip(("w1", "w3"), split(one(expert), 2)) if "gate_up" in name else [("w2", one(expert))]
            out += [(f"{block}.{number}.{part}.weight", matrix) for part, matrix in parts]
        return out
    for own, published in (("mlp.gate.e_score", "block_sparse_moe.e_score"), ("mlp.gate.weight", "block_sparse_moe.gate.weight"),
                           ("mlp.shared_experts", "block_sparse_moe.shared_experts"), ("self_attn.indexer.", "self_attn.index_")):
        name = name.replace(own, published)
    if "gate_up_proj" in name:
        return [(name.replace("gate_up_proj", part), half) for part, half in zip(("gate_proj", "up_proj"), split(tensor, 2))]
    return [(name, tensor)]


class Carried:
    """What holds of each family: with MODEL, TOWER, WRAPPER, KEPT and published()."""
    MODEL: str
    TOWER: dict
    WRAPPER: dict  # its config.json, but for the language model
    KEPT: tuple  # parts of the names of what no step moves beside the tower

    def wrapped(self):
        tensors = dict(pair for name, tensor in checkpoint.read_tensors(FIXTURES / self.MODEL / "model.safetensors").items()
                       for pair in self.published(name, tensor))
        numbers = np.random.default_rng(1)
        for number, (name, shape) in enumerate(self.TOWER.items()):
            values = numbers.normal(0, 0.1, shape).astype("<f4")
            data = values if number % 2 else values.view("<u4") >> 16
            tensors[name] = ("F32", shape, values.tobytes()) if number % 2 else ("BF16", shape, data.astype("<u2").tobytes())
        whole = self.WRAPPER | {"text_config": config_of(self.MODEL)}
        return checkpoint.write_model(self.directory / "model", tensors, whole), tensors

    def test_a_load_and_an_export_keep_every_byte(self):
        model, tensors = self.wrapped()
        for ranks in (1, 3):
            with self.subTest(ranks=ranks):
                out = self.directory / f"out-{ranks}"
                job = self.write_job(f"{ranks}.toml", job={"kind": "export"}, model={"path": model}, export={"path": out, "experts": "source"})
                self.expect(run_job(ranks, job), 0, "vision tower")
                self.assertEqual(checkpoint.read_tensors(out / "model.safetensors"), tensors)

    def test_training_has_the_loss_of_the_language_model_and_leaves_the_tower_as_it_is(self):
        model, tensors = self.wrapped()
        out = self.directory / "out"
        tables = reference_job(self.MODEL, train={"steps": 1}, optimizer={"learning_rate": 0.1}, export={"path": out, "at_end": True})
        tables["model"]["path"] = model
        job = self.write_job(**tables)
        self.expect(run_job(3, job), 0)
        with h5py.File(self.output_of(job) / "metrics.h5") as metrics, h5py.File(FIXTURES / self.MODEL / "reference.h5") as reference:
            self.assertAlmostEqual(metrics["train/loss"][0], reference["train/loss"][0], delta=2e-5)
        after = checkpoint.read_tensors(out / "model.safetensors")
        self.assertEqual(after.keys(), tensors.keys())
        kept = {name for name in tensors if after[name] == tensors[name]}
        self.assertEqual(kept, {*self.TOWER, *(name for name in tensors if any(part in name for part in self.KEPT))})


class Gemma4(Carried, JobTest):
    MODEL, TOWER, KEPT = "gemma4-tiny", GEMMA4_TOWER, ("layer_scalar",)
    WRAPPER = {"architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4", "tie_word_embeddings": True,
               "vision_config": {"model_type": "gemma4_vision", "hidden_size": 16}}

    def published(self, name, tensor):
        return [("model.language_model." + name.removeprefix("model."), tensor)]

    def test_an_export_may_have_fused_experts(self):
        model, tensors = self.wrapped()
        job = self.write_job(job={"kind": "export"}, model={"path": model}, export={"path": self.directory / "out", "experts": "fused"})
        self.expect(run_job(3, job), 0)
        self.assertEqual(checkpoint.read_tensors(self.directory / "out" / "model.safetensors"), tensors)


class MinimaxM3(Carried, JobTest):
    """Its experts are published one by one there, gate and up of all MLPs apart, and indexers under other names."""
    MODEL, TOWER, KEPT = "minimax_m3-tiny", MINIMAX_M3_TOWER, (".index_", "e_score_correction_bias")
    WRAPPER = {"architectures": ["MiniMaxM3SparseForConditionalGeneration"], "model_type": "minimax_m3_vl", "tie_word_embeddings": False,
               "vision_config": {"model_type": "clip_vision_model", "hidden_size": 16}}

    def published(self, name, tensor):
        return minimax_m3_names(name, tensor)


class Step3p7(Carried, JobTest):
    """Its language model has the names there that it has by itself."""
    MODEL, TOWER, KEPT = "step3p5-tiny", STEP3P7_TOWER, ("layers.3.", "router_bias")  # the first is of a layer for multi-token prediction
    WRAPPER = {"architectures": ["Step3p7ForConditionalGeneration"], "model_type": "step3p7", "vision_config": {"model_type": "perception_encoder"}}

    def published(self, name, tensor):
        return [(name, tensor)]


if __name__ == "__main__":
    unittest.main()
