"""Ranks that mean different jobs or models part before a weight is read."""
import json
import re
import unittest

import program
from program import FIXTURES, JobTest, mpirun, per_rank, reference_job

FIXTURE = "qwen3-moe-tiny"


class Agreement(JobTest):
    def model(self, name, **changes):
        """A copy of the fixture without weights to read: a rank that touches them fails otherwise."""
        directory = self.directory / name
        directory.mkdir(parents=True)
        config = json.loads((FIXTURES / FIXTURE / "config.json").read_text()) | changes
        (directory / "config.json").write_text(json.dumps(config))
        return directory

    def job(self, name, **changes):
        job = {"output": str(self.directory / "run")}
        return self.write_job(name, **reference_job(FIXTURE, job=job, **changes))

    def run_jobs(self, first, others):
        return mpirun(3, *per_rank([program.SLUICE, "run", first], [program.SLUICE, "run", others]))

    def run_models(self, first, others):
        """One job file everywhere; each rank's directory `model` is its own, as on machines with local disks."""
        job = self.job("job.toml", model={"path": "model"})
        words = [program.SLUICE, "run", job]
        return mpirun(3, *per_rank(["env", "-C", first.parent, *words], ["env", "-C", others.parent, *words]))

    def expect_refused(self, result, status, *parts):
        self.expect(result, status, *parts)
        self.expect_prompt(result)
        self.assertFalse((self.directory / "run").exists(), result.output)
        self.assertNotIn("shards", result.output)

    def expect_values(self, text, first, others):
        """The ranks have these values, rank 0 the first one."""
        found = re.search(r": (.*) on rank 0; (.*) on ranks 1, 2", text)
        self.assertTrue(found, text)
        self.assertIn(first, found[1])
        self.assertIn(others, found[2])

    def test_an_expert_of_another_width(self):
        first, others = self.model("a/model"), self.model("b/model", moe_intermediate_size=56)
        result = self.run_models(first, others)
        self.expect_refused(result, 70, "[comm.disagreement]",
                            "tensor model.layers.0.mlp.experts.gate_up_proj: ")
        line = self.line_of(result, "layers.0.mlp.experts.gate_up_proj")
        self.expect_values(line, "[8, 96, 64]", "[8, 112, 64]")
        self.assertNotIn("q_proj", result.output)

    def test_another_hidden_size_names_the_first_tensor(self):
        result = self.run_models(self.model("a/model"), self.model("b/model", hidden_size=96))
        self.expect_refused(result, 70)
        tensors = [text for _, text in result.lines if " tensor " in text]
        self.assertIn("model.embed_tokens.weight: ", tensors[0])
        self.expect_values(tensors[0], "[512, 64]", "[512, 96]")

    def test_a_job_and_a_model_that_differ(self):
        first = self.job("a.toml", model={"path": self.model("a")})
        others = self.job("b.toml", model={"path": self.model("b", moe_intermediate_size=56)})
        self.expect_refused(self.run_jobs(first, others), 70, "[comm.disagreement]", "job key model.path: ", "gate_up_proj: ")

    if program.open_mpi_version() != 5:  # whose mpirun crashes on `A : B`

        def test_a_launch_of_two_programs(self):
            first, others = self.job("a.toml"), self.job("b.toml", train={"steps": 9})
            words = [program.SLUICE, "run"]
            result = mpirun(1, *words, first, ":", "-np", 2, *words, others)
            self.expect_refused(result, 70, "[comm.disagreement]")
            self.expect_values(self.line_of(result, "job key train.steps: "), "8", "9")

    def test_only_a_job_key_differs(self):
        result = self.run_jobs(self.job("a.toml"), self.job("b.toml", train={"steps": 9}))
        self.expect_refused(result, 70, "[comm.disagreement]")
        self.expect_values(self.line_of(result, "job key train.steps: "), "8", "9")
        self.expect_once(result, "job key ")
        self.assertNotIn("tensor ", result.output)

    def test_a_setting_without_a_shape_differs(self):
        rope = {"rope_theta": 20000.0, "rope_type": "default"}
        result = self.run_models(self.model("a/model"), self.model("b/model", rope_parameters=rope))
        self.expect_refused(result, 70, "[comm.disagreement]")
        self.expect_values(self.line_of(result, "rope_theta: "), "10000", "20000")
        self.assertNotIn("tensor ", result.output)

    def test_another_type_of_the_published_weights(self):
        result = self.run_models(self.model("a/model"), self.model("b/model", dtype="float32"))
        self.expect_refused(result, 70, "[comm.disagreement]")
        self.expect_values(self.line_of(result, "dtype: "), "bfloat16", "float32")

    def test_a_broken_job_file_on_one_rank(self):
        broken = self.directory / "broken.toml"
        broken.write_text("[job\n")
        result = self.run_jobs(broken, self.job("good.toml"))
        self.expect_refused(result, 78, "[config.syntax]", "rank 0 ")
        self.expect_once(result, "broken.toml:")

    def test_a_broken_job_file_on_the_other_ranks(self):
        result = self.run_jobs(self.job("good.toml"), self.job("bad.toml", train={"stepz": 8}))
        self.expect_refused(result, 78, "[config.unknown_key]", "ranks 1, 2 ")
        self.expect_once(result, "stepz")

    def test_a_model_without_config_on_one_rank(self):
        first = self.model("a/model")
        (first / "config.json").unlink()
        result = self.run_models(first, self.model("b/model"))
        self.expect_refused(result, 65, "[io.not_found]", "rank 0 ")
        self.expect_once(result, "model/config.json")

    def line_of(self, result, part):
        return next(text for _, text in result.lines if part in text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
