"""tools/bench/bench_train counts what a step must do, and measures a small model from end to end."""
import json
import os
import pathlib
import stat
import statistics
import sys
import tempfile
import unittest
from contextlib import redirect_stdout
from io import StringIO
from unittest import mock

from load_tool import load_tool

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tools/bench"))
TOOL = load_tool("bench/bench_train")
PEER = load_tool("bench/peer_train")
import train_cases  # noqa: E402  (found once the path is set)
import train_tables  # noqa: E402

TINY = train_cases.COMMON | {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
                             "moe_intermediate_size": 32, "intermediate_size": 64, "vocab_size": 96, "num_experts": 4}
LIMIT = {"threads": 2, "product": {"flop_per_second": 2e12},
         "memory": [{"threads": 1, "copy_bytes_per_second": 2.4e10, "update_bytes_per_second": 2.5e10},
                    {"threads": 2, "copy_bytes_per_second": 4.6e10, "update_bytes_per_second": 4.5e10}]}
RATES = {"flop_per_second": 2e12, "bytes_per_second": 4.6e10, "threads": 2}


def write_program(path, text):
    path.write_text("#!/usr/bin/python3\n" + text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


class LimitTest(unittest.TestCase):
    def test_a_step_counts_every_product_of_every_pass(self):
        flop = train_cases.flop_per_token(train_cases.MODELS["32M"], 512)
        self.assertEqual(flop, {"projections": 8 * 8 * 655360, "attention": 8 * 4 * 512 * 512 * 2, "router": 8 * 8 * 512 * 32,
                                "experts": 8 * 8 * 4 * 3 * 512 * 384, "head": 6 * 512 * 16384})

    def test_windows_count_the_keys_inside_low_rank_products_once_and_a_delta_nets_state_thrice(self):
        flop = {name: train_cases.flop_per_token(config, 4096) for name, config in train_cases.MODELS.items()}
        base = flop["32M"]
        self.assertEqual(flop["sigmoid"], base)
        self.assertEqual(flop["sinks-full"], base)
        self.assertEqual(flop["sinks"]["attention"], (flop["sinks-windows"]["attention"] + base["attention"]) / 2)
        seen = sum(min(token + 1, 128) for token in range(4096)) / 4096 - 0.5
        self.assertAlmostEqual(flop["sinks-windows"]["attention"], 8 * 8 * 2 * 512 * seen)
        self.assertEqual(flop["latent"]["projections"], 8 * 8 * (512 * 256 + 256 * 8 * 96 + 512 * 160 + 128 * 8 * 128 + 8 * 64 * 512))
        self.assertEqual(flop["latent"]["attention"], 8 * 8 * 8 * (96 + 64) * 2048)
        self.assertEqual(flop["delta"]["attention"], 8 * (2 * 2 * 512 * 2048 + 6 * 3 * 8 * 64 * 64))

    def test_layers_of_several_kinds_count_what_each_computes(self):
        flop = {name: train_cases.flop_per_token(train_cases.MODELS[name], 4096) for name in ("conv", "two-sizes", "mamba")}
        self.assertEqual(flop["conv"]["projections"], 8 * (6 * 4 * 512 * 512 + 2 * 655360))
        self.assertEqual(flop["conv"]["attention"], 8 * 2 * 2 * 512 * 2048)
        self.assertEqual(flop["two-sizes"]["projections"], 8 * (6 * 512 * 2 * (1024 + 512) + 2 * 512 * (2 * 2048 + 512)))
        self.assertEqual(flop["two-sizes"]["experts"], 8 * 8 * 3 * 512 * (4 * 384 + 512))
        self.assertEqual(flop["mamba"]["attention"], 8 * (6 * 2 * 1024 * 128 + 2 * 2 * 512 * 2048))
        self.assertEqual(flop["mamba"]["experts"], 8 * 8 * 2 * 512 * (4 + 1) * 576)

    def test_a_familys_share_is_told_beside_qwen3_moes(self):
        output = StringIO()
        with redirect_stdout(output):
            train_tables.print_families({TOOL.Case(model, 512, 1, "routed"): {"shares_as_measured": shares} for model, shares in
                                         [("32M", [0.5, 0.25, 0.5]), ("latent", [0.25, 0.25, 0.375]), ("100M", [1, 1, 1])]})
        self.assertRegex(output.getvalue(), r"latent-512-1-routed +25.0% +0.75 +0.50 +1.00\n")
        self.assertNotIn("100M", output.getvalue())

    def test_two_teraflop_a_second_allow_4900_tokens_a_second(self):
        case = TOOL.Case("32M", 512, 3, "gathered")
        limit = train_cases.limit_of(case, 173_000_000, RATES)
        self.assertAlmostEqual(limit["seconds"]["memory"], 0.113, delta=0.001)
        self.assertAlmostEqual(case.tokens / limit["step_seconds"], 4900, delta=50)

    def test_cases_are_chosen_by_pattern(self):
        output = StringIO()
        with redirect_stdout(output):
            TOOL.main(["--list", "--cases", "32M-512-*-gathered,100M-4096-3-routed"])
        self.assertEqual(output.getvalue().split(), ["32M-512-1-gathered", "32M-512-3-gathered", "100M-4096-3-routed"])
        with self.assertRaisesRegex(SystemExit, "--cases: none of"):
            TOOL.main(["--list", "--cases", "7B-*"])

    def test_one_rank_is_also_measured_at_the_levels_that_are_asked_for(self):
        output = StringIO()
        with redirect_stdout(output):
            TOOL.main(["--list", "--cases", "32M-512-*-routed", "--isa", "AVX2,AVX512_CORE"])
        self.assertEqual(output.getvalue().split(),
                         ["32M-512-1-routed", "32M-512-1-routed@AVX2", "32M-512-1-routed@AVX512_CORE", "32M-512-3-routed"])
        with self.assertRaisesRegex(SystemExit, "--isa: AVX3 is none of SSE41"):
            TOOL.main(["--list", "--isa", "AVX3"])


class RunTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)

    def bench(self, *options):
        limit = write_program(self.directory / "limit", f"print({json.dumps(LIMIT)!r})\n")
        words = ["--limit", limit, "--sluice", os.environ["SLUICE"], "--steps", 3, "--drop", 1, "--repeats", 2, "--work",
                 self.directory / "work", "--json", self.directory / "out.json", *options]
        output = StringIO()
        with mock.patch.dict(TOOL.MODELS, {"32M": TINY}), redirect_stdout(output):
            TOOL.main([str(word) for word in words])
        return output.getvalue(), json.loads((self.directory / "out.json").read_text())

    def test_a_case_is_measured_beside_its_peer(self):
        peer = write_program(self.directory / "peer", "import sys\nassert sys.argv[2].endswith('.bin')\n"
                             "print('{\"tokens_per_s\": 10.0, \"ranks\": ' + sys.argv[4] + '}')\n")
        text, out = self.bench("--cases", "32M-512-1-gathered", "--peers", peer)
        self.assertEqual(out["cases"]["32M-512-1-gathered"]["threads"], 1)  # tests have OMP_NUM_THREADS = 1
        self.assertRegex(text, r"32M-512-1-gathered .* 10 ")
        case = out["cases"]["32M-512-1-gathered"]
        self.assertEqual([len(run["train"]["step_seconds"]) for run in case["runs"]], [2, 2])
        self.assertEqual(case["best_peer"], [10.0, "experts=grouped_mm,attn=eager,fused=1"])
        self.assertAlmostEqual(sum(value for name, value in case["medians"].items() if name.startswith("phase_seconds/")),
                               case["step_seconds"], delta=0.5 * case["step_seconds"])
        self.assertAlmostEqual(case["share_of_limit"], case["limit"]["step_seconds"] / case["step_seconds"])
        self.assertAlmostEqual(case["share_as_measured"], statistics.median(
            case["limit"]["step_seconds"] / statistics.median(run["train"]["step_seconds"]) for run in case["runs"]))

    def test_a_level_reaches_the_program(self):
        real, seen = os.environ["SLUICE"], self.directory / "seen"
        names = ("ONEDNN_MAX_CPU_ISA", "OPENBLAS_CORETYPE")
        (self.directory / "x86-64-v3").mkdir()
        program, _ = (write_program(path / "sluice", "import os, sys\n"
                                    f"if sys.argv[1] == 'run': print(*map(os.environ.get, {names}), {path.name!r}, file=open({str(seen)!r}, 'a'))\n"
                                    f"os.execv({real!r}, [{real!r}, *sys.argv[1:]])\n")
                      for path in (self.directory, self.directory / "x86-64-v3"))
        with mock.patch.object(TOOL, "processor_has", lambda level: level != "AVX512_CORE_AMX"):
            text, out = self.bench("--cases", "32M-512-1-gathered", "--isa", "AVX2,AVX512_CORE_AMX,SSE41", "--sluice", program, "--repeats", 1)
        self.assertRegex(text, r"32M-512-1-gathered@AVX2 +1 ")
        blas = os.environ.get("OPENBLAS_CORETYPE")
        self.assertEqual(seen.read_text().splitlines(), [f"None {blas} {self.directory.name}", "AVX2 Haswell x86-64-v3"])
        self.assertEqual(list(out["rates"]), ["", "AVX2"])
        self.assertRegex(text, "32M-512-1-gathered@AVX512_CORE_AMX is skipped: .*amx_tile")
        self.assertRegex(text, "32M-512-1-gathered@SSE41 is skipped: .*sluice_levels")

    def test_what_the_program_cannot_do_is_skipped_and_named(self):
        real = os.environ["SLUICE"]
        program = write_program(self.directory / "sluice", "import os, pathlib, sys\n"
                                "if sys.argv[1] == 'plan' and 'expert_parallel = 0' in pathlib.Path(sys.argv[2]).read_text():\n"
                                "    sys.exit(print('parallel.expert_parallel: not yet', file=sys.stderr) or 78)\n"
                                f"os.execv({real!r}, [{real!r}, *sys.argv[1:]])\n")
        text, out = self.bench("--cases", "32M-512-1-*", "--sluice", program, "--repeats", 1)
        self.assertRegex(text, "32M-512-1-routed is skipped: .*parallel.expert_parallel = 0")
        self.assertEqual((list(out["skipped"]), list(out["cases"])), (["32M-512-1-routed"], ["32M-512-1-gathered"]))


class PeerTest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        (self.directory / "config.json").write_text("{}")
        (self.directory / "tokens.bin").write_bytes(bytes(64))

    def run_peer(self, text):
        script = write_program(self.directory / "script", text)
        output = StringIO()
        with redirect_stdout(output):
            PEER.main([str(word) for word in (self.directory, self.directory / "tokens.bin", "--script", script, "--ranks", 2,
                                              "--options", "lr=1e-4,fused=1")])
        return json.loads(output.getvalue())

    def test_every_rank_is_started_and_rank_0_is_heard(self):
        result = self.run_peer("import json, os, sys\nprint('noise')\n"
                               "print(json.dumps({'rank': os.environ['RANK'], 'of': os.environ['WORLD_SIZE'], 'words': sys.argv[3:]}))\n")
        self.assertEqual((result["rank"], result["of"]), ("0", "2"))
        self.assertEqual(result["words"][:3] + result["words"][4:], ["4", "512", "1", "lr=1e-4", "fused=1"])

    def test_a_rank_that_fails_ends_the_others(self):
        with self.assertRaisesRegex(SystemExit, "rank 1 failed:\nno room"):
            self.run_peer("import os, sys, time\nsys.exit('no room') if os.environ['RANK'] == '1' else time.sleep(60)\n")


if __name__ == "__main__":
    unittest.main()
