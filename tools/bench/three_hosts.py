"""Jobs on the test hosts of tests/hosts."""
import pathlib
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(SOURCE / "tests/hosts"), str(SOURCE / "tests/jobs")]
import hosts as test_hosts  # noqa: E402
import program  # noqa: E402


def launch_words(hosts, job):
    """Words that run a job with a rank on each of three hosts, from the first one."""
    environment = ["env", "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", f"OMPI_MCA_plm_rsh_agent={test_hosts.AGENT}"]
    return hosts.words(1, *environment, program.SLUICE, "launch", "--hosts", "h1,h2,h3", job)
