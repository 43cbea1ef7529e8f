"""A program's wall clock under control of a test (tests/support/fake_time.c): set, too fast, or of a machine asleep. Its other clocks continue normally."""

import os
import shutil
import struct
import subprocess
import time

from server import REPO

SLEW_PPM = 83_333  # the most that chrony slews by


def fake_time_library(directory):
    """Built once for each directory."""
    library = directory / "fake_time.so"
    if not library.exists():
        directory.mkdir(parents=True, exist_ok=True)
        subprocess.run([os.environ.get("CC") or shutil.which("cc"), "-shared", "-fPIC", "-O2", "-D_GNU_SOURCE", "-o", str(library),
                        str(REPO / "tests/support/fake_time.c")], check=True)
    return library


class FakeClock:
    """A wall clock, by how much it is ahead of the machine's. The file is shared with the program."""

    def __init__(self, path, ahead_ms=0):
        self.path = path
        self.ahead_us, self.ppm, self.since = ahead_ms * 1000, 0, time.monotonic()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(40))
        self.slew(0)

    def env(self, library):
        return {"LD_PRELOAD": str(library), "TARRY_TEST_FAKE_TIME": str(self.path),
                "ASAN_OPTIONS": ":".join(filter(None, (os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0")))}

    def ahead_ms(self):
        return (self.ahead_us + (time.monotonic() - self.since) * self.ppm) / 1000

    def step(self, ms):
        self.slew(self.ppm, ms)

    def sleep(self, seconds):
        """The machine has been asleep for so much longer: all clocks of the program but those of the processor are ahead."""
        with self.path.open("r+b") as file:
            file.seek(32)
            asleep_us, = struct.unpack("=q", file.read(8))
            file.seek(32)
            file.write(struct.pack("=q", asleep_us + int(seconds * 1e6)))

    def slew(self, ppm, step_ms=0):
        now = time.monotonic()
        self.ahead_us += (now - self.since) * self.ppm + step_ms * 1000
        self.ppm, self.since = ppm, now
        with self.path.open("r+b") as file:
            file.write(struct.pack("=qqqq", 0, int(self.ahead_us), int(self.ppm), int(self.since * 1e6)))
