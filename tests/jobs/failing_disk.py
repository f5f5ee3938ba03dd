"""A real disk that fails: a file system on a loop device, which refuses a write where the file below it finds no room (EIO, from Linux
6 on ENOSPC, though the file system has room), and a read where that file ends (EIO).

    failing_disk.py      ends with 0 where this machine and user can have one (as root, with loop devices)
"""
import fcntl
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

SIZE = 64 << 20
FIBMAP = 1  # where a block of a file lies on the device
BLOCK = 4096


def call(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout.strip()


class FailingDisk:
    """Mounted at `path`. `below` holds the file that its blocks are in."""

    def __init__(self, directory, below):
        self.below, self.path = below, directory / "disk"
        self.image = below / "image"
        self.path.mkdir()
        with open(self.image, "wb") as image:
            image.truncate(SIZE)
        call("mkfs.ext4", "-q", "-b", BLOCK, "-O", "^has_journal", "-E", "lazy_itable_init=0", self.image)
        self.device = call("losetup", "--find", "--show", "--direct-io=on", self.image)
        try:
            call("mount", "-t", "ext4", self.device, self.path)
        finally:
            call("losetup", "--detach", self.device)  # once it is unmounted

    def blocks_of(self, file):
        """Numbers of the device's blocks that hold it."""
        with open(file, "rb") as opened:
            count = -(-os.fstat(opened.fileno()).st_size // BLOCK)
            return [struct.unpack("i", fcntl.ioctl(opened, FIBMAP, struct.pack("i", block)))[0] for block in range(count)]

    def forget(self, files):
        """They are on the disk alone."""
        os.sync()
        for path in files:
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def lose_blocks_from(self, block):
        """Reads of that block of the device and all later ones fail from now on."""
        os.truncate(self.image, block * BLOCK)

    def unmount(self):
        call("umount", "--lazy", self.path)


class SmallDisk:
    """A file system in memory with room for `size` bytes."""

    def __init__(self, directory, size):
        self.path = directory / "below"
        self.path.mkdir()
        call("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", self.path)

    def fill(self, left):
        """But for so many bytes."""
        status = os.statvfs(self.path)
        with open(self.path / "filler", "wb") as filler:
            os.posix_fallocate(filler.fileno(), 0, status.f_bavail * status.f_frsize - left)

    def empty(self):
        (self.path / "filler").unlink()

    def unmount(self):
        call("umount", "--lazy", self.path)


def is_possible():
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory)
        try:
            small = SmallDisk(path, SIZE)
            try:
                FailingDisk(path, small.path).unmount()
            finally:
                small.unmount()
        except (OSError, subprocess.CalledProcessError):
            return False
    return True


if __name__ == "__main__":
    sys.exit(0 if is_possible() else 1)
