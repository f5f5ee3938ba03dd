"""A checkpoint that was loaded is written out again tensor by tensor, by any number of ranks, and appears whole or not at all."""
import json
import re
import shutil
import unittest

import checkpoint
import h5py
import program
from program import FIXTURES, JobTest, mpirun, reference_job, sluice, with_fault
from suite import run_job

PROJECTIONS = ("gate", "up", "down")
FAMILIES = ["bailing_moe_v2-tiny", "deepseek_v2-tiny", "deepseek_v3-tiny", "dots1-tiny", "ernie4_5_moe-tiny", "glm4_moe-tiny",
            "glm4_moe_lite-tiny", "gpt_oss-tiny-square", "hy_v3-tiny", "minimax_m2-tiny", "mistral4-tiny", "olmoe-tiny", "qwen2_moe-tiny", "qwen3_next-tiny", "solar_open-tiny", "mellum-tiny", "exaone_moe-tiny", "lfm2_moe-tiny", "granitemoe-tiny", "afmoe-tiny", "laguna-tiny", "bailing_hybrid-tiny", "granitemoehybrid-tiny", "gemma4-tiny", "nemotron_h-tiny", "nemotron_h-latent-tiny", "kimi_linear-tiny", "hunyuan_v1_moe-tiny", "minimax_m3-tiny", "step3p5-tiny", "cohere2_moe-tiny", "cohere2_moe-rms-tiny", "mimo_v2_flash-tiny"]


def read_model(directory):
    """The tensors of a model directory, as its index says where they are."""
    index = directory / "model.safetensors.index.json"
    if not index.exists():
        return checkpoint.read_tensors(directory / "model.safetensors")
    weight_map = json.loads(index.read_text())["weight_map"]
    tensors = {}
    for file in sorted(set(weight_map.values())):
        here = checkpoint.read_tensors(directory / file)
        assert all(weight_map[name] == file for name in here), f"{file} holds what the index does not say"
        tensors |= here
    assert tensors.keys() == weight_map.keys(), "the index names other tensors than the files hold"
    return tensors


def fused(tensors):
    """Expert by expert as fused: experts.gate_up_proj [E, 2I, H] and experts.down_proj [E, H, I]."""
    out, experts = {}, {}
    for name, tensor in tensors.items():
        parts = name.split(".")
        if "experts" not in parts or not name.endswith("_proj.weight"):
            out[name] = tensor
            continue
        at = parts.index("experts")
        experts.setdefault(".".join(parts[:at + 1]), {})[int(parts[at + 1]), parts[at + 2].removesuffix("_proj")] = tensor
    for prefix, by_key in experts.items():
        count = len(by_key) // len(PROJECTIONS)
        dtype, (width, hidden), _ = by_key[0, "gate"]
        gate_up = b"".join(by_key[e, p][2] for e in range(count) for p in ("gate", "up"))
        down = b"".join(by_key[e, "down"][2] for e in range(count))
        out[f"{prefix}.gate_up_proj"] = (dtype, (count, 2 * width, hidden), gate_up)
        out[f"{prefix}.down_proj"] = (dtype, (count, hidden, width), down)
    return out


class ExportTest(JobTest):
    @property
    def out(self):
        return self.directory / "out"

    def job(self, fixture, name="job.toml", model=None, **export):
        return self.write_job(name, job={"kind": "export"}, model={"path": FIXTURES / fixture} | (model or {}),
                              export={"path": self.out} | export)

    def expect_nothing_left(self):
        left = [path.name for path in self.directory.iterdir() if "out" in path.name]
        self.assertEqual(left, [])

    def expect_companions(self, fixture):
        weights = (".safetensors", ".index.json", ".h5")
        companions = [path for path in (FIXTURES / fixture).iterdir() if not path.name.endswith(weights)]
        expected = {path.name for path in companions}
        self.assertIn("config.json", expected)
        for path in companions:
            self.assertEqual((self.out / path.name).read_bytes(), path.read_bytes())
        strangers = {path.name for path in self.out.iterdir() if not path.name.startswith("model")} - expected
        self.assertEqual(strangers, set())


class Export(ExportTest):
    def export(self, fixture, ranks, **settings):
        """The exported tensors."""
        job = self.job(fixture, f"job-{ranks}.toml", **settings)
        result = run_job(ranks, job)
        self.expect(result, 0, "GB/s", "peak growth", str(self.out))
        self.expect_companions(fixture)
        tensors = read_model(self.out)
        self.assertNotIn("lm_head.weight", tensors if "tied" in fixture else {})
        return tensors

    def expect_equal(self, found, expected):
        self.assertEqual(found.keys(), expected.keys())
        for name, tensor in expected.items():
            self.assertEqual(found[name][:2], tensor[:2], name)
            self.assertTrue(found[name][2] == tensor[2], name)

    def round_trip(self, fixture):
        source = read_model(FIXTURES / fixture)
        for ranks, settings in [(1, {"experts": "per_expert"}), (2, {"experts": "fused", "max_shard_size": "200KiB"}),
                                (3, {"experts": "source"})]:
            with self.subTest(ranks=ranks, **settings):
                self.directory = self.directory / f"ranks-{ranks}"
                self.directory.mkdir()
                found = self.export(fixture, ranks, **settings)
                self.expect_equal(found, fused(source) if settings["experts"] == "fused" else source)

    def test_a_dense_model_with_tied_embeddings(self):
        self.round_trip("qwen3-tiny-tied")

    def test_experts_in_every_layer(self):
        self.round_trip("qwen3-moe-tiny")

    def test_several_files_and_a_dense_layer(self):
        self.round_trip("qwen3-moe-mixed")

    def test_a_vision_tower_travels_along_in_either_layout_under_its_names(self):
        for ranks, fixture, experts in [(2, "qwen3_5-moe-vlm", "fused"), (3, "qwen3_5-moe-vlm-fused", "per_expert"),
                                        (3, "qwen3_5-moe-vlm-fused", "source")]:
            with self.subTest(fixture=fixture, experts=experts):
                self.directory = self.directory / experts
                self.directory.mkdir()
                source = read_model(FIXTURES / fixture)
                found = self.export(fixture, ranks, experts=experts, max_shard_size="200KiB")
                self.assertEqual(any(".experts.0." in name for name in found), experts == "per_expert")
                self.expect_equal(fused(found), fused(source))

    def test_indexers_travel_along(self):
        self.round_trip("glm_moe_dsa-tiny")

    def test_a_language_model_beside_a_vision_tower_and_its_projector(self):
        inner = FIXTURES / "deepseek_v3-tiny"
        config = json.loads((inner / "config.json").read_text())
        # transformers' default for the wrapper says that embeddings are tied.
        config = {"model_type": "kimi_k25", "text_config": config, "tie_word_embeddings": True, "vision_config": {"hidden_size": 8}}
        source = {f"language_model.{name}": tensor for name, tensor in read_model(inner).items()}
        carried = {"vision_tower.patch_embed.proj.weight": ("BF16", (3, 2), bytes(range(12))),
                   "mm_projector.linear_1.bias": ("F32", (2,), bytes(range(8)))}
        model = checkpoint.write_model(self.directory / "model", source | carried, config)
        for ranks, experts in [(1, "source"), (3, "per_expert")]:
            with self.subTest(ranks=ranks):
                out = self.directory / f"out-{ranks}"
                job = self.write_job(f"{ranks}.toml", job={"kind": "export"}, model={"path": model}, export={"path": out, "experts": experts})
                result = run_job(ranks, job)
                self.expect(result, 0)
                for part in ("vision tower", "vision tower's projector", "multi-token prediction"):
                    self.assertEqual(len(re.findall(rf"\b{part}\b(?!')", result.output)), 1, result.output)
                self.expect_equal(read_model(out), source | carried)
        stranger = checkpoint.write_model(self.directory / "stranger", source | {"audio_tower.x": carried["mm_projector.linear_1.bias"]}, config)
        self.expect(run_job(2, self.job("", "refused.toml", model={"path": stranger})), 65, "audio_tower.x")

    def test_mixtral_in_its_published_names_however_they_were_read(self):
        fixture = FIXTURES / "mixtral-tiny"
        published = read_model(fixture)
        self.assertIn("model.layers.0.block_sparse_moe.experts.7.w1.weight", published)
        tree = {checkpoint.plain_name(name): tensor for name, tensor in published.items()}
        fused_names = {checkpoint.published_name(name): tensor for name, tensor in fused(tree).items()}
        values = {checkpoint.plain_name(name): array for name, array in checkpoint.read(fixture).items()}
        respelled = checkpoint.write(self.directory / "respelled", values, fixture)
        shutil.copy(fixture / "generation_config.json", respelled)
        for ranks, source, experts, expected in [(1, None, "source", published), (2, None, "fused", fused_names),
                                                 (3, respelled, "per_expert", published), (2, respelled, "source", tree)]:
            with self.subTest(ranks=ranks, respelled=source is not None, experts=experts):
                self.directory = self.directory / f"{ranks}-{experts}"
                self.directory.mkdir()
                model = {"path": source} if source else None
                self.expect_equal(self.export("mixtral-tiny", ranks, model=model, experts=experts), expected)

    def test_experts_that_are_published_transposed(self):
        source = read_model(FIXTURES / "gpt_oss-tiny")
        self.assertEqual(source["model.layers.0.mlp.experts.gate_up_proj"][1], (8, 40, 28))
        for ranks, expert_parallel, readers, dtype in [(1, 0, "rank0", "bfloat16"), (2, 0, "all", "float32"), (2, 1, "rank0", "bfloat16"),
                                                       (3, 0, "rank0", "bfloat16"), (3, 1, "all", "float32")]:
            with self.subTest(ranks=ranks, expert_parallel=expert_parallel, readers=readers):
                self.directory = self.directory / f"{ranks}-{expert_parallel}"
                self.directory.mkdir()
                job = self.write_job(job={"kind": "export"}, model={"path": FIXTURES / "gpt_oss-tiny", "dtype": dtype},
                                     load={"readers": readers, "verify": True}, parallel={"expert_parallel": expert_parallel},
                                     export={"path": self.out, "experts": "fused" if ranks == 2 else "source"})
                self.expect(run_job(ranks, job), 0)
                self.expect_equal(read_model(self.out), source)

    def test_every_family_in_the_names_shapes_types_and_bytes_that_transformers_writes(self):
        for ranks, fixture in enumerate(FAMILIES):
            with self.subTest(fixture=fixture):
                self.directory = self.directory / fixture
                self.directory.mkdir()
                self.expect_equal(self.export(fixture, ranks % 3 + 1), read_model(FIXTURES / fixture))

    def test_experts_without_names_of_their_own_are_not_written_one_by_one(self):
        job = self.job("gpt_oss-tiny", experts="per_expert")
        self.expect(run_job(1, job), 78, "export.experts", "per_expert", "gpt_oss")
        self.expect_nothing_left()

    def test_ranks_that_all_read_the_source_share_what_is_copied(self):
        fixture = "qwen3_5-moe-vlm-fused"
        job = self.write_job(job={"kind": "export"}, model={"path": FIXTURES / fixture}, load={"readers": "all"},
                             export={"path": self.out})
        self.expect(run_job(3, job), 0)
        self.expect_equal(read_model(self.out), read_model(FIXTURES / fixture))

    def test_float32_shards_are_rounded_back(self):
        found = self.export("qwen3-moe-mixed", 3, model={"dtype": "float32"})
        self.expect_equal(found, read_model(FIXTURES / "qwen3-moe-mixed"))

    def test_small_files_are_many_and_each_within_its_size(self):
        self.export("qwen3-moe-mixed", 3, max_shard_size="200KiB")
        files = list(self.out.glob("*.safetensors"))
        self.assertGreater(len(files), 1)
        for file in files:
            self.assertLessEqual(sum(len(data) for *_, data in checkpoint.read_tensors(file).values()), 200 << 10)


class AtEnd(ExportTest):
    def train(self, name, ranks, **changes):
        job = self.write_job(name, **reference_job("qwen3-moe-tiny", debug={"dump": ""}, **changes))
        result = run_job(ranks, job)
        self.expect(result, 0)
        with h5py.File(self.output_of(job) / "metrics.h5") as metrics:
            return metrics["train/loss"][:]

    def test_what_was_trained_is_what_is_written(self):
        """After two steps the loss is the reference's third, but for the rounding of the file's bfloat16."""
        self.train("half.toml", 3, train={"steps": 2}, export={"path": self.out, "at_end": True, "experts": "fused"})
        self.expect_companions("qwen3-moe-tiny")
        loss = self.train("rest.toml", 2, model={"path": self.out, "dtype": "float32"}, train={"steps": 1})[0]
        with h5py.File(FIXTURES / "qwen3-moe-tiny/reference.h5") as reference:
            first, _, third = reference["train/loss"][:3]
        self.assertLess(abs(loss - third), 0.1 * abs(first - third))

    def test_weights_that_were_drawn(self):
        self.train("drawn.toml", 2, model={"init": "random"}, train={"steps": 1}, export={"path": self.out, "at_end": True})
        shapes = {name: tensor[:2] for name, tensor in read_model(self.out).items()}
        source = read_model(FIXTURES / "qwen3-moe-tiny")
        self.assertEqual(shapes, {name: tensor[:2] for name, tensor in source.items()})


    def test_a_target_that_was_taken_meanwhile_costs_no_weights(self):
        job = self.write_job("late.toml", **reference_job("qwen3-moe-tiny", debug={"dump": ""}, train={"steps": 200},
                                                          export={"path": self.out, "at_end": True}))
        running = program.start_mpirun(2, program.SLUICE, "run", job)
        self.addCleanup(running.stop)
        program.wait_until(lambda: "step 1/" in running.output(), "the first step")
        self.out.mkdir()
        (self.out / "precious").write_text("x")
        other = self.out.with_name(self.out.name + "-1")
        self.expect(running.finish(), 0, f"{self.out} has ", "taken", str(other))
        self.assertEqual([path.name for path in self.out.iterdir()], ["precious"])
        self.expect(sluice("verify", other), 0)


    def test_a_source_that_is_gone_by_then_costs_no_weights(self):
        model = shutil.copytree(FIXTURES / "qwen3-moe-tiny", self.directory / "model")
        job = self.write_job("late.toml", **reference_job("qwen3-moe-tiny", debug={"dump": ""}, train={"steps": 200},
                                                          model={"path": model}, export={"path": self.out, "at_end": True}))
        running = program.start_mpirun(2, program.SLUICE, "run", job)
        self.addCleanup(running.stop)
        program.wait_until(lambda: "step 1/" in running.output(), "the first step")
        model.rename(self.directory / "moved")
        result = running.finish()
        self.expect(result, 0, f"{model}: ", "no such directory")
        self.expect_once(result, "copy config.json")
        shapes = {name: tensor[:2] for name, tensor in read_model(self.out).items()}
        source = read_model(FIXTURES / "qwen3-moe-tiny")
        self.assertEqual(shapes, {name: tensor[:2] for name, tensor in source.items()})


class Refused(ExportTest):
    def test_a_target_that_cannot_be_made_is_refused_before_anything_is_loaded(self):
        (self.directory / "file").write_text("x")
        below_a_file = self.job("qwen3-moe-tiny", path=self.directory / "file/out")
        self.expect(sluice("check", below_a_file), 74, f"{self.directory / 'file'} is not ")
        unwilling = self.job("qwen3-moe-tiny", "unwilling.toml", path=self.directory / (250 * "n"))  # a name in use is longer
        for job in (below_a_file, unwilling):
            result = run_job(2, job)
            self.expect(result, 74, "[job.not_writable]" if job is below_a_file else "nnn.partial-")
            self.assertNotIn("received", result.output)

    def test_a_target_that_is_there_is_refused_before_anything_is_loaded(self):
        self.out.mkdir()
        (self.out / "precious").write_text("x")
        job = self.job("qwen3-moe-tiny")
        self.expect(sluice("check", job, "--ranks", 2), 78, "export.path", str(self.out), "already there")
        result = run_job(2, job)
        self.expect(result, 78, "export.path", str(self.out), "already there")
        self.assertNotIn("received", result.output)
        self.assertEqual([path.name for path in self.out.iterdir()], ["precious"])

    def test_the_source_itself(self):
        job = self.job("qwen3-moe-tiny", path=FIXTURES / "qwen3-moe-tiny/")
        self.expect(sluice("check", job), 78, "export.path: ", "of model.path")

    def test_no_path(self):
        self.expect(sluice("check", self.job("qwen3-moe-tiny", path="")), 78, "export.path", 'job.kind is "export"')

    def test_check_says_what_will_be_written(self):
        result = sluice("check", self.job("qwen3-moe-mixed", max_shard_size="200KiB"), "--ranks", 3)
        self.expect(result, 0, "export", "in 4 files", str(self.out))
        self.expect_nothing_left()

    def test_a_disk_that_is_too_small(self):
        config = json.loads((FIXTURES / "qwen3-tiny-tied/config.json").read_text())
        config |= {"hidden_size": 65536, "intermediate_size": 1 << 20, "num_hidden_layers": 64, "layer_types": None}
        model = self.directory / "huge"
        model.mkdir()
        (model / "config.json").write_text(json.dumps(config))
        job = self.write_job(job={"kind": "export"}, model={"path": model}, export={"path": self.out})
        self.expect(sluice("check", job), 74, "export.path", "TB", "free")

    def test_a_file_beyond_the_users_limit_is_a_refused_write_and_no_death(self):
        job = self.job("qwen3-moe-mixed")
        # Blocks of 512 bytes. One rank, because several share a file of Open MPI's that is larger.
        result = program.run("sh", "-c", f"ulimit -f 200; exec {program.SLUICE} run {job}")
        self.expect(result, 74, "model.safetensors", "File too large")
        self.expect_nothing_left()

    def test_a_write_that_fails_on_one_rank_ends_all_and_leaves_nothing(self):
        job = self.job("qwen3-moe-mixed", max_shard_size="200KiB")
        for rank in (0, 2):
            with self.subTest(rank=rank):
                result = mpirun(3, *with_fault("export.write", rank, 2, "io"), "run", job,
                                "--set", f"job.output={self.directory}/run-{rank}")
                self.expect(result, 74, "injected")
                self.expect_once(result, "exit code 74")
                self.expect_nothing_left()


if __name__ == "__main__":
    unittest.main(verbosity=2)
