"""The program over stand-ins for CUDA's runtime and NCCL: which GPUs the ranks take, and how a job ends whose NCCL fails or
hangs. Its job kind "evaluate" speaks over the GPUs and does nothing else."""
import pathlib
import unittest

import program
from program import FIXTURES, SLUICE, mpirun

MODEL = FIXTURES / "qwen3-moe-tiny"


def with_environment(ranks, *words, **variables):
    return mpirun(ranks, "env", *(f"{name}={value}" for name, value in variables.items()), *words)


class StandInTest(program.JobTest):
    def job(self, kind="auto", **deadlines):
        return self.write_job(job={"kind": "evaluate"}, model={"path": MODEL}, device={"kind": kind},
                              data={"tokens": MODEL / "reference.h5", "sequence_length": 48}, deadline=deadlines)

    def run_with(self, job, ranks, *overrides, **variables):
        changes = [word for override in overrides for word in ("--set", override)]
        return with_environment(ranks, SLUICE, "run", job, *changes, **variables)

    def expect_one_message(self, result, status, *parts):
        """And no run directory: nothing has begun."""
        self.expect(result, status, *parts)
        self.expect_once(result, "sluice: ")
        self.assertNotIn("MPI_ABORT", result.output)
        self.expect_prompt(result)
        self.assertFalse((self.directory / "job").exists())


class Devices(StandInTest):
    def test_each_rank_takes_the_gpu_of_its_number_on_the_node(self):
        result = self.run_with(self.job(), 3, SLUICE_STAND_IN_GPUS="H100,H100,H100")
        self.expect(result, 0, "device    3 of H100", "summed over 3 GPUs")

    def test_the_number_counts_anew_on_each_node(self):
        result = self.run_with(self.job(), 3, SLUICE_NODES="0,1,1", SLUICE_STAND_IN_GPUS="H100,H100")
        # On one machine two of them are the same GPU in truth, and that is what is told.
        self.expect_one_message(result, 71, "ranks 0, 1 ", "same GPU")

    def test_a_rank_takes_the_only_one_it_sees(self):
        words = f"CUDA_VISIBLE_DEVICES=$OMPI_COMM_WORLD_LOCAL_RANK exec '{SLUICE}' run '{self.job()}'"
        self.expect(mpirun(2, "sh", "-c", words), 0, "device    2 of Stand-in GPU", "summed over 2 GPUs")

    def test_auto_is_the_cpu_where_no_rank_has_a_gpu(self):
        result = self.run_with(self.job(), 2, SLUICE_STAND_IN_GPUS="")
        self.expect(result, 0, "device    CPU", "no CUDA-capable device", "no GPUs")

    def test_the_cpu_may_be_asked_for(self):
        self.expect(self.run_with(self.job("cpu"), 2), 0, "no GPUs")

    def test_a_missing_driver_is_one_message(self):
        result = self.run_with(self.job("cuda"), 2, SLUICE_STAND_IN_GPUS="no driver")
        self.expect_one_message(result, 71, 'device.kind is "cuda"', "CUDA driver version")

    def test_a_missing_driver_is_one_line_of_a_rank_alone(self):
        result = program.run("env", "SLUICE_STAND_IN_GPUS=no driver", SLUICE, "run", self.job("cuda"))
        self.expect(result, 71)
        self.assertRegex(result.output, r'\Asluice: device.kind is "cuda", but no GPU can be used: CUDA driver version .*\n\Z')

    def test_more_ranks_than_gpus_are_one_message(self):
        for kind in ("auto", "cuda"):
            result = self.run_with(self.job(kind), 3, SLUICE_STAND_IN_GPUS="H100,H100")
            self.expect_one_message(result, 71, "3 ranks ", "rank 2", "2 GPUs")

    def test_a_gpu_that_two_ranks_see_alone_is_one_message(self):
        result = self.run_with(self.job(), 2, CUDA_VISIBLE_DEVICES="1")
        self.expect_one_message(result, 71, "ranks 0, 1 ", "same GPU (Stand-in GPU)")

    def test_a_mix_of_ranks_with_and_without_is_one_message(self):
        words = f"case $OMPI_COMM_WORLD_RANK in 1) export SLUICE_STAND_IN_GPUS= ;; esac; exec '{SLUICE}' run '{self.job()}'"
        result = mpirun(3, "sh", "-c", words)
        self.expect_one_message(result, 71, "ranks 0, 2 ", "rank 1 cannot", "no CUDA-capable device")

    def test_gpus_of_different_kinds_are_one_message(self):
        result = self.run_with(self.job(), 3, SLUICE_STAND_IN_GPUS="H100,H200,H100")
        self.expect_one_message(result, 71, "H100 (compute", "(ranks 0, 2)", "H200 (compute", "(rank 1)")

    def test_a_load_fills_the_memory_of_the_gpus(self):
        result = self.run_with(self.job("cuda"), 2, "job.kind=load", "load.verify=true", SLUICE_STAND_IN_DELAY_US="50")
        self.expect(result, 0, "device    2 of Stand-in GPU", "verified")

    def test_a_job_that_computes_nothing_takes_no_gpu(self):
        job = self.job("cuda")
        result = self.run_with(job, 2, "job.kind=export", f"export.path={self.directory}/out", SLUICE_STAND_IN_GPUS="no driver")
        self.expect(result, 0, "export")


class Builds(StandInTest):
    def test_a_program_without_cuda_among_others_is_told_apart(self):
        job = self.job("auto")
        job.write_text(job.read_text().replace("evaluate", "load"))
        other = pathlib.Path(SLUICE).parents[1] / "sluice"
        result = mpirun(2, *program.per_rank([SLUICE, "run", job], [other, "run", job]))
        self.expect(result, 70, "CUDA", "no CUDA", "no NCCL")
        self.expect_prompt(result)


class Failures(StandInTest):
    """A limit, and the job ends by it; after another where the abort hangs too."""

    SETUP, STEP = 4, 1

    def fail_with(self, fault, ranks=2, limit=STEP, step=STEP):
        setup = self.SETUP if limit == self.SETUP else 60
        result = self.run_with(self.job("cuda", setup_seconds=setup, step_seconds=step), ranks, SLUICE_STAND_IN_FAULT=fault)
        self.assertEqual(result.status, 70, result.output)
        self.assertLess(result.seconds, limit + program.GUARD_SECONDS, result.output)
        return result

    def fail_at_setup(self, fault):
        return self.fail_with(fault, limit=self.SETUP)

    def test_an_identifier_that_never_comes(self):
        self.expect(self.fail_at_setup("identifier-hang:-1"), 70, "ncclGetUniqueId on rank 0 ", "4.0 s")

    def test_a_communicator_that_cannot_be_made(self):
        self.expect(self.fail_at_setup("init-error:1"), 70, "setup: nccl_init #1", "rank 1: NCCL failed", "unhandled system error")

    def test_a_communicator_that_is_never_ready(self):
        self.expect(self.fail_at_setup("init-hang:1"), 70, "setup: nccl_init #1", "waited 4.", "NCCL to connect")

    def test_a_call_that_makes_a_communicator_and_does_not_return(self):
        self.expect(self.fail_at_setup("init-block:1"), 70, "ncclCommInitRankConfig on rank 1 ", "4.0 s")

    def test_a_collective_that_hangs_on_the_device_of_one_rank(self):
        for ranks in (1, 2, 4):
            self.expect(self.fail_with(f"hang:{ranks - 1}:3", ranks), 70, "step: reduce_scatter_sum #3",
                        "waited 1.", "for the device")

    def test_a_collective_whose_call_does_not_return(self):
        self.expect(self.fail_with("launch-block:1:2"), 70, "reduce_scatter_sum #2", "on rank 1 ", "not returned")

    def test_an_asynchronous_error(self):
        # No other rank's wait ends before the one that saw the error has told of it.
        result = self.fail_with("error:1:4", limit=0, step=60)
        self.expect(result, 70, "step: reduce_scatter_sum #4", "rank 1: NCCL failed", "remote process exited")

    def test_an_abort_that_hangs(self):
        result = self.fail_with("hang:1:3,abort-hang:0,abort-hang:1", limit=2 * self.STEP)
        self.expect(result, 70, "ncclCommAbort ", "step: reduce_scatter_sum #3", "within 1.0 s")

    def test_a_communicator_that_is_never_done(self):
        # All that the job was to do is done: it ends as if nothing were.
        result = self.run_with(self.job("cuda", step_seconds=1), 2, SLUICE_STAND_IN_FAULT="finalize-hang:1")
        self.expect(result, 0, "summed over 2 GPUs", "nccl_finalize #1")


if __name__ == "__main__":
    unittest.main()
