"""tools/bench/sample_load reads what the kernel says, and sees a real load from outside."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

from load_tool import load_tool

TOOL = load_tool("bench/sample_load")
SOURCE = pathlib.Path(__file__).resolve().parents[2]
MIB = 1 << 20
ROLLUP = """55c3e44c4000-7fff45ecb000 ---p 00000000 00:00 0                          [rollup]
Rss:                1752 kB
Pss:                 271 kB
Pss_Anon:             56 kB
Pss_Shmem:             8 kB
Anonymous:           112 kB
AnonHugePages:         4 kB
"""


class ReadingTest(unittest.TestCase):
    def test_memory_is_what_is_anonymous_and_the_part_of_what_is_shared(self):
        self.assertEqual(TOOL.memory_in(ROLLUP), 120 * 1024)

    def test_the_rank_is_in_the_environment(self):
        self.assertEqual(TOOL.rank_in(b"HOME=/root\0OMPI_COMM_WORLD_RANK=2\0PMIX_RANK=7\0"), 2)
        self.assertEqual(TOOL.rank_in(b"PMIX_RANK=11\0"), 11)
        self.assertIsNone(TOOL.rank_in(b"HOME=/root\0broken\0\xff=1\0"))

    def test_a_folder_without_weights_is_named(self):
        with self.assertRaisesRegex(SystemExit, "tools has no"):
            TOOL.main([str(SOURCE / "tools")])


class LoadTest(unittest.TestCase):
    RANKS = 2

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.json = pathlib.Path(directory.name, "load.json")

    def sample(self, *options):
        words = [SOURCE / "tools/bench/sample_load", SOURCE / "tests/fixtures/qwen3-moe-tiny", "--ranks", str(self.RANKS),
                 "--sluice", os.environ["SLUICE"], "--json", self.json, *options]
        return subprocess.run(words, capture_output=True, text=True, check=False)

    def test_every_rank_has_a_row_and_grows_by_no_more_than_the_program_says(self):
        result = self.sample("--dtype", "float32")
        self.assertEqual(result.returncode, 0, result.stderr)
        heading, *rows, cache = result.stdout.splitlines()
        self.assertTrue(heading.split()[:2] == ["round", "rank"] and len(rows) == self.RANKS, result.stdout)
        self.assertRegex(cache, r"before, .* MiB left")
        for rank, row in enumerate(json.loads(self.json.read_text())["rounds"][0]["ranks"]):
            self.assertEqual(row["rank"], rank)
            self.assertAlmostEqual(row["shard_bytes"], 4 * 362624 / self.RANKS, delta=32 * 1024)
            self.assertEqual(row["above_shard_bytes"], row["peak_growth_bytes"] - row["shard_bytes"])
            self.assertLess(row["above_shard_bytes"], row["reported_above_shard_bytes"] + 16 * MIB)
            self.assertGreater(row["samples"], 1)  # of a load this short none may be near its peak

    def test_a_program_that_fails_is_heard(self):
        result = self.sample("--set", "load.chunk=nonsense")
        self.assertEqual(result.returncode, 1)
        self.assertIn("load.chunk", result.stderr)
        self.assertFalse(self.json.exists())


if __name__ == "__main__":
    unittest.main()
