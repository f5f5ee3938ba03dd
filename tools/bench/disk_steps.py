"""How fast a disk is for as many processes at once as there are ranks, and steps beside what the disk and the computing would take alone."""
import mmap
import multiprocessing
import os
import statistics
import time

import h5py

RATE_BYTES, PIECE = 2 << 30, 8 << 20


def time_disk(path, writes, first, ready, seconds):
    """Writes or reads a file in large pieces, past the page cache, from byte `first` on."""
    flags = os.O_DIRECT | (os.O_RDWR | os.O_CREAT if writes else os.O_RDONLY)
    file = os.open(path, flags, 0o600)
    buffer = mmap.mmap(-1, PIECE)
    buffer.write(os.urandom(PIECE))
    if writes:
        os.posix_fallocate(file, 0, RATE_BYTES)
    ready.wait()
    begin = time.monotonic()
    for offset in range(first, first + RATE_BYTES, PIECE):
        done = os.pwritev(file, [buffer], offset) if writes else os.preadv(file, [buffer], offset)
        assert done == PIECE
    if writes:
        os.fsync(file)
    seconds.put(time.monotonic() - begin)
    os.close(file)


def rate_of(places, writes):
    """Bytes a second of one of so many processes at once; `places`: the file of each, and its first byte there."""
    ready, seconds = multiprocessing.Barrier(len(places)), multiprocessing.Queue()
    jobs = [multiprocessing.Process(target=time_disk, args=(path, writes, first, ready, seconds)) for path, first in places]
    for job in jobs:
        job.start()
    rate = RATE_BYTES / statistics.mean(seconds.get() for _ in jobs)
    for job in jobs:
        job.join()
    return rate


def rates_of(directory, ranks):
    """{"write": ..., "read": ...} of files of their own."""
    places = [(directory / f"rate-{rank}", 0) for rank in range(ranks)]
    rates = {way: rate_of(places, way == "write") for way in ("write", "read")}
    for path, _ in places:
        path.unlink()
    return rates


def step_table(output, planned, rates):
    """Prints each step; where there is a disk, beside what it and the computing would take alone."""
    with h5py.File(output / "metrics.h5") as metrics:
        train = {name: metrics["train"][name][:] for name in ("loss", "step_seconds")}
        waits, updates = (metrics["train/phase_seconds"][name][:] for name in ("disk_wait", "optimizer"))
        growth, plan = metrics["memory/peak_growth_bytes"][-1], metrics["memory/planned_bytes"][-1]
    for step, (loss, seconds, wait, update) in enumerate(zip(train["loss"], train["step_seconds"], waits, updates), 1):
        text = f"step {step:2}  loss {loss:.4f}  {seconds:7.2f} s  optimizer {update / seconds:4.0%}"
        if rates:
            disk = max(max(rank["disk"]["step_read_bytes"] / rates["read"], rank["disk"]["step_written_bytes"] / rates["write"])
                       for rank in planned["ranks"])
            compute = seconds - wait
            text += f"  disk {disk:6.2f} s  compute {compute:6.2f} s  waited {wait:6.2f} s  ratio {seconds / max(disk, compute):.2f}"
        print(text, flush=True)
    print("peak growth over planned bytes of each rank:", " ".join(f"{size / of:.3f}" for size, of in zip(growth, plan)))
