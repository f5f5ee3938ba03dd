"""The shipped job scripts under a real Slurm whose nodes are machines of their own, the test hosts: with a node that is set down, and with
saved steps on each node's own disk.

    nodes_test.py [CLASS[.TEST]]...      as root, with network namespaces and Debian's packages slurmctld, slurmd, slurm-client and munge
"""
import os
import pathlib
import re
import sys
import unittest

import slurm_test
from slurm_test import SLOW, SlurmJob, SlurmTest
from cluster import NODES, HostsCluster
from program import SLUICE_WITH_FAULTS, losses, sluice

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "hosts"))
import hosts as test_hosts  # noqa: E402

# Each host has a network with the same address, over which no other is reached.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_btl_tcp_if_include": f"{test_hosts.NETWORK}.0/24", "OMPI_MCA_oob_tcp_if_include": f"{test_hosts.NETWORK}.0/24"}
hosts = None


def setUpModule():
    global hosts
    os.environ |= ENVIRONMENT
    hosts = test_hosts.Hosts(NODES, "1gbit")
    try:
        slurm_test.cluster = HostsCluster(hosts)
    except BaseException:
        hosts.down()
        raise


def tearDownModule():
    slurm_test.cluster.stop()
    hosts.down()


class NodesTest(SlurmTest):
    def setUp(self):
        super().setUp()
        self.directory = hosts.shared  # /tmp is each host's own
        self.addCleanup(self.set_state, "h[1-4]", "resume")

    def set_state(self, nodes, state):
        slurm_test.cluster.command("scontrol", "update", f"nodename={nodes}", f"state={state}", "reason=test")

    def submit(self, job, *options, script="train.sbatch"):
        """A rank on each of three nodes, whose steps are slow."""
        log = self.directory / f"{job.stem}-%j.out"
        words = ["env", "-C", self.directory, f"SLUICE={SLUICE_WITH_FAULTS}", f"SLUICE_FAULT={SLOW}", "sbatch", "--nodes=3", "--cpus-per-task=1", "--mem=300",
                 f"--output={log}", *options, slurm_test.SCRIPTS / script, job]
        answer = slurm_test.cluster.command(*words)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        number = answer.stdout.split()[-1]
        return SlurmJob(self, number, pathlib.Path(str(log).replace("%j", number)))

    def nodes(self, slurm):
        """The nodes of each start, as the script names them."""
        return re.findall(r"^job \d+, restart \d+, on (\S+) since", slurm.output(), re.MULTILINE)

    def expect_same_losses(self, found, steps, **changes):
        """As those of a training that nothing happens to."""
        whole = self.job("whole.toml", steps=steps, **changes)
        self.expect(slurm_test.mpirun(3, slurm_test.SLUICE, "run", whole), 0)
        self.assertEqual(found, losses(self.output_of(whole)))


class Nodes(NodesTest):
    STEPS = 12
    SAVES = {"every_steps": 2, "every_minutes": 0}

    def test_a_node_set_down_leads_to_a_requeue_that_goes_on(self):
        job = self.job("requeued.toml", steps=self.STEPS, checkpoint=self.SAVES)
        slurm = self.submit(job)
        slurm.wait_for("saved     step 4")
        self.set_state("h3", "down")
        slurm.wait_for("restart 1")
        self.assertEqual(slurm.wait_for_end(), ("COMPLETED", 0), slurm.output())
        self.assertEqual(self.nodes(slurm)[0], "h[1-3]")  # and then three again, as Slurm has them
        self.assertIn("resume    from step ", slurm.output())
        self.expect_same_losses(losses(self.output_of(job)), self.STEPS)

    def expect_going_on(self, script):
        job = self.job(f"{script}.toml", steps=self.STEPS, checkpoint=self.SAVES)
        slurm = self.submit(job, "--no-kill", script=f"{script}.sbatch")
        slurm.wait_for("saved     step 4")
        self.set_state("h3", "down")
        self.assertEqual(slurm.wait_for_end(), ("COMPLETED", 0), slurm.output())
        self.assertIn("it goes on with h1 h2 ", slurm.output())
        self.assertIn("resume    from step ", slurm.output())
        self.assertIn("saved     step 12: ", slurm.output())

    def test_a_node_set_down_is_left_out_under_no_kill(self):
        self.expect_going_on("train")

    def test_a_node_set_down_is_left_out_under_no_kill_and_mpirun(self):
        self.expect_going_on("train-mpirun")

    def test_a_requeue_asks_for_the_nodes_whose_disks_have_the_saved_steps(self):
        first = slurm_test.cluster.command("sbatch", "--nodelist=h1", "--exclusive", "--output=/dev/null", "--wrap=sleep 1000").stdout.split()[-1]
        job = self.job("own-disks.toml", steps=self.STEPS, job={"output": "/tmp/run"}, checkpoint=self.SAVES)
        slurm = self.submit(job)
        slurm.wait_for("saved     step 4")
        slurm_test.cluster.command("scancel", first)  # now h1 to h3 would be the first nodes
        slurm_test.cluster.command("scancel", "--signal=USR1", slurm.number)
        slurm.wait_for("restart 1")
        self.assertEqual(slurm.wait_for_end(), ("COMPLETED", 0), slurm.output())
        self.assertEqual(self.nodes(slurm), 2 * ["h[2-4]"], slurm.output())
        self.assertRegex(slurm.output(), r"step \d+ is saved on the disks of h\[2-4\]")
        self.assertRegex(slurm.output(), r"step \d+ is whole on h2, h3, h4")


if __name__ == "__main__":
    unittest.main(verbosity=2)
