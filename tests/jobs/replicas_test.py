"""Several copies of the model on sets of ranks (parallel.replicas): the numbers of one rank, weights that stay alike, and what is sent.

    replicas_test.py [Training | Adapters | Saving | Using | ByPlan | Refused]...
"""
import json
import re
import shutil
import tomllib
import unittest

import h5py
import numpy

import program
from program import FIXTURES, JobTest, mpirun, reference_job, with_fault
from suite import run_job
from trajectories import Trajectory, expect_follows

FIXTURE = "qwen3_5-moe-tiny"
ADAPTERS = {"rank": 4, "alpha": 8, "targets": ["all-linear", "lm_head"]}


class ReplicasTest(JobTest):
    def job(self, name="job.toml", fixture=FIXTURE, **changes):
        """Compares the weights of all sets after each step; saves nothing."""
        defaults = {"debug": {"dump": ""}, "guard": {"compare_ranks_every": 1}, "checkpoint": {"every_minutes": 0}}
        tables = reference_job(fixture, **defaults)
        for table, keys in changes.items():
            tables.setdefault(table, {}).update(keys)
        return self.write_job(name, **tables)

    def run_job(self, ranks, job, *arguments):
        self.expect(run_job(ranks, job, *arguments), 0)
        return self.output_of(job)

    def train(self, ranks, replicas, name, **changes):
        parallel = {"replicas": replicas} | changes.pop("parallel", {})
        return self.run_job(ranks, self.job(name, parallel=parallel, **changes))


class Training(ReplicasTest):
    def expect_numbers_of_one_rank(self, fixture, ranks, replicas, dtype="float32", experts=0, **changes):
        model = {"dtype": dtype}
        expected = Trajectory.of_run(self.train(1, 1, f"{fixture}-{dtype}.toml", fixture=fixture, model=model, **changes))
        found = self.train(ranks, replicas, f"{fixture}-{dtype}-{ranks}-{replicas}.toml", fixture=fixture, model=model,
                           parallel={"expert_parallel": experts}, **changes)
        expect_follows(self, Trajectory.of_run(found), expected, dtype=dtype)
        _, planned = program.sent_bytes(found)
        if planned["vocabulary"] == 0 or replicas == ranks:  # of so small a vocabulary it depends on the tokens whether rows travel
            self.expect_planned_bytes(found)

    def test_families_on_sets_of_one_to_three_ranks(self):
        for fixture, ranks, replicas in (("qwen3-moe-tiny", 2, 2), ("gpt_oss-tiny", 3, 3), ("qwen3_5-moe-tiny", 4, 2),
                                         ("deepseek_v3-tiny", 6, 2), ("mixtral-tiny", 6, 3), ("qwen3-tiny-tied", 4, 2)):
            with self.subTest(fixture=fixture, ranks=ranks, replicas=replicas):
                self.expect_numbers_of_one_rank(fixture, ranks, replicas)

    def test_experts_that_a_set_gathers(self):
        self.expect_numbers_of_one_rank(FIXTURE, 4, 2, experts=1)

    def test_experts_in_groups_within_a_set(self):
        self.expect_numbers_of_one_rank("qwen3-moe-tiny", 8, 2, experts=2, train={"steps": 2})

    def test_experts_of_a_latent_width_whose_vectors_have_it_on_their_way(self):
        self.expect_planned_bytes(self.train(3, 1, "latent.toml", fixture="nemotron_h-latent-tiny", lora=ADAPTERS))

    def test_released_gradients_clipped_by_the_norm_of_all(self):
        self.expect_numbers_of_one_rank(FIXTURE, 4, 2, optimizer={"gradients": "release"})

    def test_gradients_and_weights_in_bfloat16(self):
        self.expect_numbers_of_one_rank("qwen3-moe-tiny", 4, 2, dtype="bfloat16", train={"steps": 2})

    def test_sets_without_sequences(self):
        self.expect_numbers_of_one_rank(FIXTURE, 4, 2, train={"batch_sequences": 1, "steps": 3})

    def test_experts_and_their_state_on_a_disk_in_each_set(self):
        changes = {"optimizer": {"gradients": "release"}, "train": {"steps": 3}, "fixture": "qwen3-moe-tiny"}
        memory = {"offload": "disk", "limit": "100MiB"}
        refused = mpirun(4, program.SLUICE, "run", self.job("refused.toml", parallel={"replicas": 2}, memory=memory, **changes))
        self.expect(refused, 71)
        memory["limit"] = program.limit_that_just_does(100 << 20, refused.output)
        one = Trajectory.of_run(self.train(1, 1, "one.toml", **changes))
        output = self.train(4, 2, "copies.toml", memory=memory, **changes)
        expect_follows(self, Trajectory.of_run(output), one)
        ranks = json.loads((output / "plan.json").read_text())["ranks"]
        self.assertGreater(min(rank["offload_buffers_bytes"] for rank in ranks), 0)

    def test_a_rank_that_is_killed_ends_all_sets(self):
        job = self.job(parallel={"replicas": 2}, load={"chunk": "64KiB"})
        for site, rank in (("load.chunk", 2), ("train.step", 3)):
            with self.subTest(site=site, rank=rank):
                self.expect_named_when_killed(4, job, site, rank, 3)
                shutil.rmtree(self.output_of(job))


class Adapters(ReplicasTest):
    def test_three_sets_of_one_rank_send_nothing_but_their_gradients(self):
        expected = Trajectory.of_run(self.train(1, 1, "one.toml", lora=ADAPTERS))
        output = self.train(3, 3, "three.toml", lora=ADAPTERS)
        expect_follows(self, Trajectory.of_run(output), expected)
        self.expect_planned_bytes(output)
        _, planned = program.sent_bytes(output)
        self.assertEqual([planned[purpose] for purpose in ("dense_weights", "expert_weights", "tokens")], [0, 0, 0])

    def test_two_sets_of_two_ranks_that_keep_frozen_weights(self):
        expected = Trajectory.of_run(self.train(1, 1, "one.toml", lora=ADAPTERS))
        for frozen in ("gathered", "kept"):
            output = self.train(4, 2, f"{frozen}.toml", lora=ADAPTERS, parallel={"frozen": frozen})
            expect_follows(self, Trajectory.of_run(output), expected)

    def test_a_base_in_nf4(self):
        base = {"model": {"frozen_format": "nf4", "dtype": "float32"}, "lora": ADAPTERS}
        expected = Trajectory.of_run(self.train(1, 1, "one.toml", fixture="qwen3-moe-tiny", **base))
        for readers in ("rank0", "all"):
            output = self.train(4, 2, f"{readers}.toml", fixture="qwen3-moe-tiny", load={"readers": readers}, **base)
            expect_follows(self, Trajectory.of_run(output), expected)


class Saving(ReplicasTest):
    LAYOUTS = ((4, 2), (1, 1), (3, 3), (2, 1), (6, 2))

    def test_goes_on_with_any_number_of_copies_and_exports_what_one_does(self):
        for gradients in ("float32", "release"):
            every = {"checkpoint": {"every_steps": 1}, "optimizer": {"gradients": gradients}, "train": {"steps": len(self.LAYOUTS)}}
            whole = self.train(1, 1, f"whole-{gradients}.toml", **every)
            name = f"cut-{gradients}.toml"
            for steps, (ranks, replicas) in enumerate(self.LAYOUTS, 1):
                job = self.job(name, parallel={"replicas": replicas}, **every)
                output = self.run_job(ranks, job, "--set", f"train.steps={steps}")
            losses = program.losses(output)
            for step, loss in program.losses(whole).items():
                self.assertAlmostEqual(losses[step], loss, delta=1e-4)

    def test_first_set_alone_saves_and_exports(self):
        changes = {"checkpoint": {"every_steps": 2}, "train": {"steps": 2}}
        outputs = []
        for ranks, replicas in ((2, 1), (4, 2)):
            export = {"path": str(self.directory / f"exported-{ranks}"), "at_end": True}
            outputs.append(self.train(ranks, replicas, f"at-{ranks}.toml", export=export, **changes))
        sizes = [sum(file.stat().st_size for file in (output / "checkpoints/step-00000002").glob("rank-*")) for output in outputs]
        self.assertLess(sizes[1], 1.05 * sizes[0])
        self.assertTrue((self.directory / "exported-4/config.json").exists())
        self.expect(program.sluice("verify", self.directory / "exported-4"), 0)

    def test_an_export_of_its_own_is_that_of_one_copy(self):
        outputs = []
        for ranks, replicas in ((2, 1), (4, 2)):
            path = self.directory / f"exported-alone-{ranks}"
            job = self.job(f"export-{ranks}.toml", job={"kind": "export"}, data={"tokens": ""}, export={"path": str(path)},
                           parallel={"replicas": replicas})
            self.run_job(ranks, job)
            outputs.append({file.name: file.read_bytes() for file in path.glob("*.safetensors")})
        self.assertTrue(outputs[0])
        self.assertEqual(outputs[0], outputs[1])

    def test_a_dump_has_the_numbers_of_all_sets(self):
        dumps = []
        for ranks, replicas in ((1, 1), (4, 2)):
            output = self.train(ranks, replicas, f"dump-{ranks}.toml", debug={"dump": "dump.h5"}, train={"steps": 1})
            with h5py.File(output / "dump.h5") as dump:
                numbers = {}
                dump.visititems(lambda name, item: numbers.update({name: item[()]} if isinstance(item, h5py.Dataset) else {}))
                dumps.append(numbers)
        self.assertEqual(set(dumps[0]), set(dumps[1]))
        for name, expected in dumps[0].items():
            if not name.startswith("train"):
                numpy.testing.assert_allclose(dumps[1][name], expected, rtol=1e-3, atol=1e-5, err_msg=name)

    def test_adapters_are_exported_and_merged(self):
        for adapters in ("keep", "merge"):
            path = self.directory / f"exported-{adapters}"
            self.train(4, 2, f"{adapters}.toml", lora=ADAPTERS, train={"steps": 1},
                       export={"path": str(path), "at_end": True, "adapters": adapters})
            self.assertTrue(any(path.glob("*.safetensors")))


class Using(ReplicasTest):
    def test_evaluates_with_all_sets(self):
        totals = []
        for ranks, replicas in ((1, 1), (4, 2), (3, 3)):
            job = self.job(f"at-{ranks}.toml", job={"kind": "evaluate"}, parallel={"replicas": replicas})
            with h5py.File(self.run_job(ranks, job) / "metrics.h5") as metrics:
                totals.append(metrics["evaluate/total_loss"][0])
        self.assertLess(numpy.ptp(totals), 1e-5)

    def test_answers_and_scores_with_all_sets(self):
        prompts, documents = self.write_prompts(), self.write_documents(FIXTURE)
        answers, scores = [], []
        for ranks, replicas in ((1, 1), (4, 2), (3, 3)):
            generate = {"prompts": prompts, "max_tokens": 6, "ignore_eos": True, "batch_sequences": 4}
            job = self.job(f"answers-{ranks}.toml", job={"kind": "generate"}, generate=generate, parallel={"replicas": replicas})
            answers.append(program.answers(self.run_job(ranks, job)))
            job = self.job(f"scores-{ranks}.toml", job={"kind": "score"}, data={"tokens": documents}, parallel={"replicas": replicas})
            with h5py.File(self.run_job(ranks, job) / "scores.h5") as file:
                scores.append(file["documents/log_prob"][:])
        self.assertEqual(answers[1:], [answers[0]] * 2)
        for found in scores[1:]:
            numpy.testing.assert_allclose(found, scores[0], rtol=1e-5)

    def test_one_reader_sends_the_model_once_over_each_link(self):
        job = self.job(job={"kind": "load"}, data={"tokens": ""}, parallel={"replicas": 3})
        with h5py.File(self.run_job(3, job) / "metrics.h5") as metrics:
            shard, received = (metrics[f"load/{name}"][:] for name in ("shard_bytes", "bytes_received"))
        self.assertEqual(shard.tolist(), [shard[0]] * 3)
        self.assertLess(received[0], 1e4)
        self.assertLess(max(received), 1.01 * shard[0])

    def test_every_copy_is_compared_with_the_files_whoever_reads(self):
        contents = set()
        for readers in ("rank0", "all"):
            for ranks, replicas in ((1, 1), (2, 2), (3, 3), (4, 2)):
                job = self.job(f"verify-{readers}-{ranks}.toml", job={"kind": "load"}, data={"tokens": ""}, parallel={"replicas": replicas},
                               load={"readers": readers, "verify": True})
                result = run_job(ranks, job)
                self.expect(result, 0)
                contents.add(re.search(r"verified +(\d+ tensors.*)", result.output)[1])
        self.assertEqual(len(contents), 1, contents)


class ByPlan(ReplicasTest):
    def chosen(self, ranks, nodes, memory="1GB", **parallel):
        job = self.job("plan.toml", parallel={"replicas": 0} | parallel)
        result = program.sluice("plan", job, "--ranks", ranks, "--nodes", nodes, "--memory", memory)
        self.expect(result, 0)
        return int(re.search(r"copies of the model: (\d+)", result.output)[1])

    def test_the_most_that_fit_whole_hosts(self):
        self.assertEqual([self.chosen(3, 3), self.chosen(4, 2), self.chosen(4, 1), self.chosen(6, 3)], [3, 2, 1, 3])
        self.assertEqual([self.chosen(4, 4, expert_parallel=2), self.chosen(3, 3, "1MB")], [2, 1])

    def test_a_run_on_pretended_hosts_goes_on_with_fewer(self):
        job = self.job(parallel={"replicas": 0}, checkpoint={"every_steps": 2}, train={"steps": 6})
        expected = Trajectory.of_run(self.train(1, 1, "one.toml", train={"steps": 6}))
        for nodes, steps in (("0,1,2", 2), ("0,1", 4), ("0,0,1,1", 6)):
            ranks = nodes.count(",") + 1
            result = mpirun(ranks, "-x", f"SLUICE_NODES={nodes}", program.SLUICE, "run", job, "--set", f"train.steps={steps}",
                            "--set", "checkpoint.storage=shared")
            self.expect(result, 0, "parallel.replicas")
            saved = tomllib.loads((self.output_of(job) / "job.toml").read_text())
            self.assertEqual(saved["parallel"]["replicas"], len(set(nodes.split(","))))
        found = program.losses(self.output_of(job))
        for step, loss in enumerate(expected.losses, 1):
            self.assertAlmostEqual(found[step], loss, delta=1e-4)


class Refused(ReplicasTest):
    def expect_refused(self, ranks, *parts, **changes):
        self.expect(run_job(ranks, self.job("refused.toml", **changes)), 78, "parallel.replicas", *parts)

    def test_what_does_not_divide(self):
        self.expect_refused(4, "found 3", "1, 2, 4", parallel={"replicas": 3})
        result = run_job(4, self.job("groups.toml", parallel={"replicas": 2, "expert_parallel": 4}))
        self.expect(result, 78, "parallel.expert_parallel", "found 4")


if __name__ == "__main__":
    unittest.main()
