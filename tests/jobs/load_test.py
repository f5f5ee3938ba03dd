"""A checkpoint of half a gigabyte reaches the shards of three ranks, none of which grows by much more than its shard."""
import ctypes
import json
import mmap
import os
import pathlib
import tempfile
import unittest

import h5py
import numpy
import program
from program import JobTest, mpirun, sluice

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
        self.assertLess(max(table["shard_bytes"]), 0.34 * shard_bytes)
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

    def test_a_limit_that_is_too_small(self):
        result = self.load(memory_limit="64KiB", chunk="64KiB")
        self.expect(result, 70)
        self.assertRegex(result.output, "cannot allocate|out of memory")
        self.expect_once(result, "failed, so the job ends with exit code")
        self.expect_prompt(result)

    def test_a_limit_below_one_chunk(self):
        self.expect(self.load(memory_limit="1MiB"), 78, "load.memory_limit: found 1048576 bytes", "load.chunk")


if __name__ == "__main__":
    unittest.main(verbosity=2)
