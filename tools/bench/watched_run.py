"""A run of the program with the memory of all its ranks seen from outside."""
import collections
import pathlib
import subprocess
import sys
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[2]
Watched = collections.namedtuple("Watched", "peak_bytes log")


def memory_of(pid):
    """Anonymous + Pss_Shmem in bytes; 0 for a process that has ended."""
    try:
        lines = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(("Anonymous:", "Pss_Shmem:")))


def ranks_of(parent):
    """The computing programs below a process."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "comm").read_text().startswith("sluice"):
                found.append(int(entry.name))
        except OSError:
            continue
    return [pid for pid in found if is_below(pid, parent)]


def is_below(pid, parent):
    while pid > 1:
        try:
            pid = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            return False
        if pid == parent:
            return True
    return False


def watched_run(sluice, words, ranks, pause_seconds=0.05):
    """Runs a job to its end; the most bytes that all ranks had at once, and what it printed."""
    with tempfile.NamedTemporaryFile("w+") as log:
        launch = [SOURCE / "tools/mpirun.sh", "-np", str(ranks), sluice, "run", *words]
        job = subprocess.Popen([str(word) for word in launch], stdout=log, stderr=log, start_new_session=True)
        peak = 0
        while job.poll() is None:
            peak = max(peak, sum(memory_of(pid) for pid in ranks_of(job.pid)))
            time.sleep(pause_seconds)
        log.seek(0)
        text = log.read()
        if job.returncode != 0:
            sys.exit(f"the run ended with {job.returncode}:\n{text[-3000:]}")
    return Watched(peak, text)
