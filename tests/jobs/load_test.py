"""Checkpoints reach the shards: whatever their layout, and without a rank that grows by much more than its shard."""
import ctypes
import json
import mmap
import os
import pathlib
import re
import tempfile
import unittest

import checkpoint
import h5py
import numpy
import program
from program import FIXTURES, JobTest, mpirun, sluice
from suite import run_job

MIB = 1 << 20
RANKS = 3
CONFIG = {  # 274 M parameters: large embeddings beside many experts that are smaller than a chunk
    "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "hidden_act": "silu", "vocab_size": 30001,
    "hidden_size": 1024, "intermediate_size": 2048, "moe_intermediate_size": 256, "num_hidden_layers": 8,
    "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 64, "num_experts": 32, "num_experts_per_tok": 4,
    "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [], "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
    "initializer_range": 0.02, "max_position_embeddings": 512, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}


def cached_share(path):
    """Of a file's pages, as the kernel's mincore() tells."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapping:
        pages = numpy.zeros(-(-len(mapping) // mmap.PAGESIZE), dtype=numpy.uint8)
        view = numpy.frombuffer(mapping, dtype=numpy.uint8)
        address, length = ctypes.c_void_p(view.ctypes.data), ctypes.c_size_t(len(mapping))
        failed = ctypes.CDLL(None).mincore(address, length, ctypes.c_void_p(pages.ctypes.data))
        del view
        assert not failed, "mincore"
        return (pages & 1).mean()


class Load(JobTest):
    @classmethod
    def setUpClass(cls):
        # Not in /tmp, which may be memory: no file there could leave the page cache.
        folder = tempfile.TemporaryDirectory(prefix="sluice-load-", dir=os.getcwd())
        cls.addClassCleanup(folder.cleanup)
        config = pathlib.Path(folder.name) / "config"
        config.mkdir()
        (config / "config.json").write_text(json.dumps(CONFIG))
        cls.model = pathlib.Path(folder.name) / "model"
        made = sluice("synthesize", config, cls.model, "--sparse")
        assert made.status == 0, made.output
        cls.file_bytes = (cls.model / "model.safetensors").stat().st_size

    def load(self, dtype="bfloat16", **settings):
        job = self.write_job(job={"kind": "load", "output": self.directory / "run"},
                             model={"path": self.model, "dtype": dtype}, load={"memory_limit": "64MiB"} | settings)
        return mpirun(RANKS, program.SLUICE, "run", job)

    def table(self, result):
        self.expect(result, 0)
        with h5py.File(self.directory / "run/metrics.h5") as metrics:
            return {name: column[:].tolist() for name, column in metrics["load"].items()}

    def expect_bounded(self, table, shard_bytes):
        self.assertEqual(len(table["shard_bytes"]), RANKS)
        self.assertAlmostEqual(sum(table["shard_bytes"]) / shard_bytes, 1, delta=1e-3)
        self.assertLess(max(table["shard_bytes"]), 0.345 * shard_bytes)
        for shard, growth in zip(table["shard_bytes"], table["peak_growth_bytes"]):
            self.assertGreaterEqual(growth, 0.9 * shard)
            self.assertLessEqual(growth - shard, 64 * MIB)

    def test_no_rank_grows_by_more_than_shard_and_limit(self):
        self.assertGreater(self.file_bytes, 500e6)
        table = self.table(self.load(page_cache="keep"))
        self.expect_bounded(table, self.file_bytes)
        self.assertGreater(cached_share(self.model / "model.safetensors"), 0.75)
        self.assertEqual(table["bytes_received"][0], 0)
        self.assertLess(max(table["peak_staging_bytes"]), 64 * MIB)
        for rank in range(1, RANKS):  # its shard, but for padding
            self.assertLess(abs(table["bytes_received"][rank] - table["shard_bytes"][rank]), 1e6)

    def test_float32_shards_of_bfloat16_files(self):
        table = self.table(self.load(dtype="float32", page_cache="drop"))
        self.expect_bounded(table, 2 * self.file_bytes)
        self.assertLess(cached_share(self.model / "model.safetensors"), 0.25)
        for rank in range(1, RANKS):  # travels as it is in the file
            self.assertLess(abs(2 * table["bytes_received"][rank] - table["shard_bytes"][rank]), 2e6)

    def test_on_unified_memory_not_even_what_was_cached_is_left(self):
        (self.model / "model.safetensors").read_bytes()
        result = self.load(unified_memory=True)
        self.expect(result, 0, "fullest machine")
        self.assertLess(cached_share(self.model / "model.safetensors"), 0.25)

    def test_a_limit_that_is_too_small(self):
        result = self.load(memory_limit="64KiB", chunk="64KiB")
        self.expect(result, 71)
        self.assertRegex(result.output, "allocate|out of memory")
        self.expect_once(result, "exit code 71")
        self.expect_prompt(result)

    def test_a_limit_below_one_chunk(self):
        self.expect(self.load(memory_limit="1MiB"), 78, "[config.contradiction]", "load.memory_limit: ", "1048576", "load.chunk")


class TooLarge(JobTest):
    def test_a_model_that_no_machine_holds_is_refused_before_anything_is_allocated(self):
        large = {"hidden_size": 32768, "moe_intermediate_size": 32768, "num_experts": 128, "num_hidden_layers": 64}
        (self.directory / "config.json").write_text(json.dumps(CONFIG | large))
        for unified, memory in [(False, "available"), (True, "free")]:
            with self.subTest(memory=memory):
                job = self.write_job(f"{memory}.toml", job={"kind": "load"}, load={"unified_memory": unified},
                                     model={"path": self.directory})
                result = mpirun(RANKS, program.SLUICE, "run", job)
                self.expect(result, 71, "[job.memory]", "ranks 0-2", memory, "sluice plan")
                self.expect_prompt(result)


class Layouts(JobTest):
    """Every published layout reaches the shards."""
    PARAMETERS = {"bailing_moe_v2-tiny": 103416, "qwen3_next-tiny": 106452, "deepseek_v2-tiny": 97848, "deepseek_v3-tiny": 96126, "deepseek_v32-tiny": 74444, "glm_moe_dsa-tiny": 98370, "glm4_moe_lite-tiny": 93756, "dots1-tiny": 94740, "ernie4_5_moe-tiny": 81880, "glm4_moe-tiny": 103800, "gpt_oss-tiny": 122168, "gpt_oss-tiny-square": 42900, "hy_v3-tiny": 103416, "minimax_m2-tiny": 80392, "mistral4-tiny": 97848, "mixtral-tiny": 70600, "olmoe-tiny": 70720, "qwen2_moe-tiny": 72880, "qwen3-tiny-tied": 199296, "solar_open-tiny": 82312, "mellum-tiny": 38100, "exaone_moe-tiny": 39736, "lfm2_moe-tiny": 33504, "granitemoe-tiny": 29040, "afmoe-tiny": 37440, "laguna-tiny": 36508, "bailing_hybrid-tiny": 38620, "granitemoehybrid-tiny": 22712, "gemma4-tiny": 20488, "nemotron_h-tiny": 35212, "nemotron_h-latent-tiny": 24140, "kimi_linear-tiny": 40646, "hunyuan_v1_moe-tiny": 24524, "minimax_m3-tiny": 40692, "step3p5-tiny": 36992, "cohere2_moe-tiny": 36924, "cohere2_moe-rms-tiny": 18880, "mimo_v2_flash-tiny": 40984,
                  "qwen3-tiny-yarn": 75784, "qwen3-moe-tiny": 362624, "qwen3-moe-mixed": 390272, "qwen3_5-tiny": 76344, "qwen3_5-moe-tiny": 553416,
                  "qwen3_5-moe-vlm": 553416, "qwen3_5-moe-vlm-fused": 553416}

    WITH_PREDICTION_LAYER = {"bailing_hybrid-tiny", "deepseek_v3-tiny", "glm4_moe-tiny", "hy_v3-tiny", "mimo_v2_flash-tiny", "qwen3_5-moe-vlm-fused", "step3p5-tiny"}

    def load(self, model, ranks, dtype="bfloat16"):
        """Loads and compares what arrived with the files."""
        job = self.write_job(f"{model.name}-{ranks}-{dtype}.toml", job={"kind": "load"}, model={"path": model, "dtype": dtype},
                             load={"verify": True})
        return run_job(ranks, job), self.output_of(job)

    def expect_loaded(self, model, ranks, parameters, dtype="bfloat16"):
        result, run = self.load(model, ranks, dtype)
        self.expect(result, 0)
        with h5py.File(run / "metrics.h5") as metrics:
            shards = metrics["load/shard_bytes"][:]
        self.assertEqual(len(shards), ranks)
        exact = parameters * {"bfloat16": 2, "float32": 4}[dtype]
        self.assertGreaterEqual(shards.sum(), exact)
        self.assertLess(shards.sum(), 1.02 * exact + 4096)  # tensors begin at multiples of 64 bytes: much of the smallest models
        self.expect_once(result, "verified ")
        return result

    def content_of(self, result):
        return re.search(r"content ([0-9a-f]{32})", result.output).group(1)

    def test_every_fixture_at_one_two_and_three_ranks(self):
        contents = {}
        for fixture, parameters in self.PARAMETERS.items():
            for ranks in [1, 2, 3]:
                with self.subTest(fixture=fixture, ranks=ranks):
                    result = self.expect_loaded(FIXTURES / fixture, ranks, parameters)
                    towers = 1 if "vlm" in fixture else 0
                    heads = 1 if fixture in self.WITH_PREDICTION_LAYER else 0
                    indexers = 1 if fixture in ("deepseek_v32-tiny", "glm_moe_dsa-tiny", "minimax_m3-tiny") else 0
                    self.assertEqual(result.output.count("indexer of sparse attention"), indexers, result.output)
                    self.assertEqual(result.output.count("vision tower"), towers, result.output)
                    self.assertEqual(result.output.count("multi-token prediction"), heads, result.output)
                    contents.setdefault(fixture, set()).add(self.content_of(result))
        self.assertEqual([len(found) for found in contents.values()], [1] * len(self.PARAMETERS))  # at any rank count
        self.assertEqual(contents["qwen3_5-moe-vlm"], contents["qwen3_5-moe-vlm-fused"])

    def test_every_type_of_file_into_either_training_type(self):
        fixture = FIXTURES / "qwen3_5-moe-vlm-fused"
        tensors = checkpoint.read(fixture)
        for file_dtype in ["F64", "F32", "F16", "BF16"]:
            model = checkpoint.write(self.directory / file_dtype, tensors, fixture, file_dtype)
            for dtype in ["float32", "bfloat16"]:
                with self.subTest(file=file_dtype, training=dtype):
                    self.expect_loaded(model, 2, self.PARAMETERS[fixture.name], dtype)

    def test_other_prefixes_and_joined_or_separate_projections(self):
        per_expert, fused = FIXTURES / "qwen3_5-moe-vlm", FIXTURES / "qwen3_5-moe-vlm-fused"
        tensors, fused_tensors = checkpoint.read(per_expert), checkpoint.read(fused)
        variants = {
            "outer": checkpoint.renamed(tensors, "model.language_model.", "language_model.model."),
            "plain": checkpoint.renamed(fused_tensors, "model.language_model.", "model."),
            "joined": checkpoint.with_joined_experts(tensors),
            "separate": checkpoint.with_separate_gates(fused_tensors),
        }
        for name, variant in variants.items():
            with self.subTest(layout=name):
                model = checkpoint.write(self.directory / name, variant, per_expert)
                self.expect_loaded(model, 3, self.PARAMETERS[per_expert.name])

    def test_every_difference_in_one_report(self):
        fixture = FIXTURES / "qwen3_5-moe-vlm"
        tensors = checkpoint.read(fixture)
        first = "model.language_model.layers.0."
        del tensors[first + "linear_attn.A_log"]
        del tensors[first + "mlp.experts.9.down_proj.weight"]
        tensors[first + "linear_attn.conv1d.weight"] = tensors[first + "linear_attn.conv1d.weight"][:, 0]
        tensors[first + "linear_attn.conv1d.bias"] = numpy.zeros(128)
        result, run = self.load(checkpoint.write(self.directory / "model", tensors, fixture), 3)
        self.expect(result, 65, "missing (2):", first + "linear_attn.A_log [4]", "experts.9.down_proj.weight [64, 48]",
                    "shape (1):", "[128, 4]", "[128, 1, 4]", "unexpected (1):", "conv1d.bias", "[weights.mismatch]")
        self.expect_once(result, "config.json describes")
        self.assertFalse((run / "metrics.h5").exists())


class Readers(JobTest):
    """Whoever reads, every byte is read once and sent at most once."""

    def load(self, readers, before=(), **settings):
        job = self.write_job(f"{readers}-{settings.get('sink', 'shards')}.toml", job={"kind": "load"},
                             model={"path": FIXTURES / "qwen3-moe-mixed"}, load={"readers": readers} | settings)
        result = mpirun(RANKS, *before, program.SLUICE, "run", job)
        self.expect(result, 0)
        with h5py.File(self.output_of(job) / "metrics.h5") as metrics:
            return result, metrics["load/bytes_received"][:].tolist()

    def test_each_rank_reads_its_own(self):
        self.assertEqual(self.load("all", verify=True)[1], [0, 0, 0])

    def test_one_of_each_node_reads_for_its_node(self):
        from_rank_0 = self.load("rank0")[1]
        received = self.load("node", ["env", "SLUICE_NODES=a,b,a"], verify=True)[1]
        self.assertEqual(received, [0, 0, from_rank_0[2]])

    def test_readers_with_different_revisions_of_a_model_are_refused_before_a_byte_is_loaded(self):
        tensors = checkpoint.read(FIXTURES / "qwen3-moe-mixed")
        for rank in range(RANKS):
            (self.directory / f"node-{rank}").mkdir()
            values = {name: array + (rank == 2) * 0.25 for name, array in tensors.items()}
            checkpoint.write(self.directory / f"node-{rank}" / "model", values, FIXTURES / "qwen3-moe-mixed")
        for kind, tables in [("load", {}), ("export", {"export": {"path": self.directory / "out"}})]:
            with self.subTest(kind=kind):
                job = self.write_job(f"{kind}.toml", job={"kind": kind}, model={"path": "model"}, load={"readers": "all"},
                                     **tables)
                in_place = f"cd {self.directory}/node-$OMPI_COMM_WORLD_RANK && exec {program.SLUICE} run {job}"
                result = mpirun(RANKS, "sh", "-c", in_place)
                self.expect(result, 70, "[weights.copies_differ]", "model.safetensors", "rank 2", "load.readers")
                self.assertNotIn("received", result.output)

    def test_discarded_bytes_travel_and_leave_no_shard(self):
        result, received = self.load("rank0", sink="discard")
        self.assertEqual(received, self.load("rank0")[1])
        self.assertIn("no shard", result.output)


class RankLogs(JobTest):
    def logs_of(self, job, ranks):
        self.expect(run_job(ranks, job, "--set", "job.overwrite=true"), 0)
        return [path.read_text() for path in sorted((self.output_of(job) / "logs").iterdir())]

    def test_each_log_tells_what_its_rank_did(self):
        job = self.write_job(job={"kind": "load"}, model={"path": FIXTURES / "qwen3-moe-tiny"})
        logs = self.logs_of(job, 3)
        self.assertEqual(len(logs), 3)
        for rank, log in enumerate(logs):
            for part in [f"rank {rank} of 3, process ", "compute   threads: ", "usable cores: ", "for weights", "received ", "done      after "]:
                self.assertIn(part, log)
        self.assertIn("load      reads ", logs[0])
        self.assertRegex(logs[1], "load +receives.*rank 0")

    def test_a_run_with_fewer_ranks_leaves_no_log_of_the_others(self):
        job = self.write_job(job={"kind": "load"}, model={"path": FIXTURES / "qwen3-moe-tiny"})
        self.assertEqual(len(self.logs_of(job, 3)), 3)
        logs = self.logs_of(job, 2)
        self.assertEqual(len(logs), 2)
        for log in logs:
            self.assertEqual(log.count("started "), 1, log)

    def test_the_log_of_a_training_has_buffers_kernels_and_phases_and_no_line_for_each_step(self):
        job = self.write_job(**program.reference_job("qwen3-moe-tiny"))
        for log in self.logs_of(job, 2):
            for part in ["for gradient shards", "float32 by ", "steps     gather ", " optimizer "]:
                self.assertIn(part, log)
            self.assertLess(len(log.splitlines()), 48, log)


if __name__ == "__main__":
    unittest.main(verbosity=2)
