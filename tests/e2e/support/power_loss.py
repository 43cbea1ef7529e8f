"""
Power cuts, from a trace of the real server: what it did to its files and when it answered is recorded (io_trace.py); every answer has to come after the
sync that covers it (io_order.py); and from moments of the trace directories are built as a disk could have left them (io_disk.py), opened
(tests/support/recover.c), and compared with what had been answered (io_story.py).

    python3 tests/e2e/support/power_loss.py --images 20000 --seed 1 --mib 300

Exit code 0: nothing found; 1: a fault; 3: it met too little to prove anything. The images of a seed are the same for the same trace; the trace of a
fault is kept, with its image.
"""

import argparse
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).parent)]

import io_trace  # noqa: E402
from io_calls import Calls, Changes  # noqa: E402
from io_disk import DAMAGES, Disk  # noqa: E402
from io_load import Load  # noqa: E402
from io_order import Order  # noqa: E402
from io_story import Found, Story  # noqa: E402
from io_trace import MADE_DIR, OPENED, PUNCHED, RECEIVED, RENAMED, SYNCED, UNLINKED  # noqa: E402
from server import BINARY, LibraryServer, Server, eventually  # noqa: E402

FLAGS = ("--sync", "always", "--shards", "1", "--wal-file", "4MiB")
HELPERS = os.cpu_count() or 1
AROUND = 40  # records before and after something rare that are worth a crash as well
FAULTS_SHOWN = 20
SPACE_BYTES = 1 << 30
WITHIN_EVERY, WITHIN = 23, 3  # of so many images one is opened under a trace of its own, for so many power cuts within the opening


# ---- recording ----

def record(directory, seed, mib, flags=FLAGS, drop=0, stop="kill", kind=Server):
    """Runs a server under load; the path of its trace."""
    directory = pathlib.Path(directory)
    library = io_trace.build_library(directory)
    server = kind(directory, flags, io_trace.environment(library, directory / "trace", directory / "data", drop))
    server.start()
    try:
        Load(server.port, seed, mib).run()
        eventually(lambda: _checkpoints(server) > 0 or mib < 10, 20)
    finally:
        getattr(server, stop)()
    assert not server.sanitizer_report(), server.sanitizer_report()
    shutil.rmtree(server.data)
    return directory / "trace"


def _checkpoints(server):
    return server.client().good("GET", "/v1/info").get("checkpoints", 1)


class Traced:
    """A trace read once: its order, its changes, what there was in it."""

    def __init__(self, path):
        self.path, self.order, calls = pathlib.Path(path), Order(), Calls()
        self.kinds, self.names = {}, {}
        for one in io_trace.records(path):
            self.order.follow(one)
            calls.follow(one)
            self.kinds[one.kind] = self.kinds.get(one.kind, 0) + 1
            if one.kind == RENAMED:
                name = bytes(one.data).split(b"/")[-1].decode()
                what = "catalogs" if name.startswith("CATALOG") else "log files" if name.endswith(".log") else "others"
                self.names[what] = self.names.get(what, 0) + 1
        self.changes = Changes(calls.all).all
        self.faults = self.order.faults(self.changes)


# ---- crash images ----

def moments(path, count, chance):
    """Places in the trace after which the power goes: half of them around what is rare, a few for each kind of record, the others anywhere."""
    places, rare, kinds = [], set(), {}
    for one in io_trace.records(path):
        if one.kind in (RECEIVED, OPENED):
            continue
        if one.kind in (RENAMED, UNLINKED, MADE_DIR, PUNCHED):
            rare.update(range(len(places) - AROUND, len(places) + AROUND))
        kinds.setdefault(one.kind, []).append(len(places))
        places.append(one.at)
    rare = [index for index in sorted(rare) if 0 <= index < len(places)]
    chosen = [chance.choice(of_kind) for of_kind in kinds.values() for _ in range(5)]
    chosen += chance.choices(rare, k=count // 2) if rare else []
    chosen += chance.choices(range(len(places)), k=max(0, count - len(chosen)))
    return sorted(places[index] for index in chance.sample(chosen, min(count, len(chosen))))


def program():
    """tests/support/recover.c, built beside the server."""
    path = BINARY.parent / "tests" / "recover"
    if not path.exists():
        subprocess.run(["cmake", "--build", str(BINARY.parent), "--target", "recover"], check=True, stdout=subprocess.DEVNULL)
    return path


class Helper:
    """A process that recovers directories, one at a time."""

    def __init__(self):
        self.process = subprocess.Popen([str(program())], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.image = None

    def give(self, image):
        self.image = image
        self.process.stdin.write(f"{image.path}\n".encode())
        self.process.stdin.flush()

    def answer(self):
        """(the image, {step: (status, text)})."""
        steps = {}
        while True:
            words = self.process.stdout.readline().decode().split(" ", 2)
            if words[0] == "end":
                image, self.image = self.image, None
                return image, steps
            if words[0] != "begin":
                assert len(words) == 3, f"recover says {words}"
                steps[words[0]] = (int(words[1]), self.process.stdout.read(int(words[2])).decode("utf-8", "replace"))

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


class Image:
    """A power cut: the files that were left, and their allowed content."""

    __slots__ = ("number", "moment", "damage", "path", "expectation")

    def __init__(self, number, moment, path, expectation):
        self.number, self.moment, self.path, self.expectation = number, moment, path, expectation
        self.damage = DAMAGES[number % len(DAMAGES)]

    def faults(self, steps):
        faults = [f"{step} ended with {status}: {text[:600]}" for step, (status, text) in steps.items() if status != 0]
        for step in ("first", "second", "fsck"):
            if step not in steps:
                faults.append(f"nothing came of '{step}'")
        if "first" in steps and steps["first"][0] == 0:
            found = Found(steps["first"][1])
            faults += self.expectation.faults(found)
            if steps.get("second", (1, ""))[0] == 0 and steps["second"][1]:
                faults += found.differences(Found(steps["second"][1]))
        return faults


def in_memory():
    """A directory in memory with room for some images, or None."""
    shared = pathlib.Path("/dev/shm")
    return shared if os.access(shared, os.W_OK) and shutil.disk_usage(shared).free > SPACE_BYTES else None


class PowerLoss:
    """`count` images of a trace, checked. only: that one alone is made, and left in `leave`. forgets: see Disk; the first fault is then enough."""

    def __init__(self, traced, seed, count, only=None, leave=None, forgets=None):
        self.traced, self.seed, self.count, self.only, self.leave, self.forgets = traced, seed, count, only, leave, forgets
        self.story, self.disk = Story(traced.changes), Disk(forgets)
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="tarry-power-", dir=in_memory()))
        self.helpers, self.faults, self.checked, self.jobs, self.within = [], [], 0, 0, 0

    def run(self):
        """The faults, as text."""
        places = moments(self.traced.path, self.count, random.Random(f"moments {self.seed}"))
        self.helpers = [Helper() for _ in range(HELPERS)] if self.only is None else []
        try:
            self._go(list(enumerate(places)))
            for helper in self.helpers:
                self._check(helper)
        finally:
            for helper in self.helpers:
                helper.stop()
            shutil.rmtree(self.place)
        return self.faults

    def _go(self, places):
        places.reverse()
        for one in io_trace.records(self.traced.path):
            self.disk.play(one)
            while places and places[-1][1] == one.at:
                number, moment = places.pop()
                if self.only in (None, number):
                    self._crash(number, moment)
            if not places or (self.forgets and self.faults):
                return
        raise AssertionError("the trace ends before its last moment")

    def _crash(self, number, moment):
        self.story.go_to(moment)
        image = Image(number, moment, self.leave or self.place / f"{number}", self.story.expectation())
        if self.leave:
            self.disk.crash(image.path, image.damage, random.Random(f"{self.seed}/{number}"))
            return
        helper = self.helpers[number % len(self.helpers)]
        self.disk.crash(image.path, image.damage, random.Random(f"{self.seed}/{number}"))
        self._check(helper)
        if number % WITHIN_EVERY == WITHIN_EVERY - 1 and not self.forgets:
            self._within(image, helper)
        helper.give(image)

    def _within(self, image, helper):
        """The power goes once more, while the image is opened, and while it is opened again."""
        disk, trace = Disk.of(image.path), self.traced.path.parent / "trace-within"
        copy = shutil.copytree(image.path, self.place / "opened")
        subprocess.run([str(program())], input=f"{copy}\n".encode(), stdout=subprocess.DEVNULL, check=True,
                       env={**os.environ, **io_trace.environment(io_trace.build_library(trace.parent), trace, copy)})
        shutil.rmtree(copy)
        chance = random.Random(f"within {self.seed}/{image.number}")
        places = moments(trace, WITHIN, chance)
        for one in io_trace.records(trace):
            disk.play(one)
            while places and places[0] == one.at:
                again = Image(image.number, (image.moment, places.pop(0)), self.place / "again", image.expectation)
                again.damage = chance.choice(DAMAGES)
                disk.crash(again.path, again.damage, chance)
                helper.give(again)
                self._check(helper)
                self.within += 1
        trace.unlink()

    def _check(self, helper):
        if not helper.image:
            return
        image, steps = helper.answer()
        faults = image.faults(steps)
        self.checked += 1
        self.jobs += steps.get("first", (1, ""))[1].count("\njob\t")
        if faults:
            self.faults.append(f"image {image.number}, after {image.moment}, damage '{image.damage}':\n    " + "\n    ".join(faults[:5]))
        shutil.rmtree(image.path)


# ---- by hand ----

def too_little(traced, power, images):
    """Events that a run must contain to prove anything."""
    wanted = {"checkpoints": (traced.names.get("catalogs", 0), 2), "log files begun": (traced.names.get("log files", 0), 4),
              "images": (power.checked, images), "power cuts within a recovery": (power.within, images // WITHIN_EVERY), "batches": (traced.order.batches, 100)}
    for what in ("push", "existed", "ack", "nack", "cancel", "reschedule", "topic"):
        wanted[f"answers to {what}"] = (traced.order.checked.get(what, 0), 4 if what == "existed" else 10)  # that one is rare
    return [f"{what}: {is_now}, not {least}" for what, (is_now, least) in wanted.items() if is_now < least]


def report(traced, power):
    answers = ", ".join(f"{count} {what}" for what, count in sorted(traced.order.checked.items()))
    return (f"{sum(traced.order.checked.values())} answers proved to come after their sync ({answers}), {traced.order.batches} batches, "
            f"{traced.kinds.get(SYNCED, 0)} syncs, renamed {traced.names}, {traced.kinds.get(PUNCHED, 0)} punched, {traced.kinds.get(UNLINKED, 0)} unlinked; "
            f"{power.checked} images with {power.jobs} jobs recovered twice, "
            f"{power.within} of them of power cuts within a recovery")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--mib", type=int, default=60, help="of bodies pushed")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--library", action="store_true", help="a program with the library in its process in place of the server")
    parser.add_argument("--trace", help="this one, instead of recording")
    parser.add_argument("--only", type=int, help="builds this image of the trace, and leaves it in --leave DIR")
    parser.add_argument("--leave")
    return parser.parse_args(arguments)


def main(arguments=None):
    chosen = parse(arguments)
    seed = chosen.seed if chosen.seed is not None else random.randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    directory = pathlib.Path(tempfile.mkdtemp(prefix="tarry-power-loss-"))
    began = time.monotonic()
    traced = Traced(chosen.trace or record(directory, seed, chosen.mib, kind=LibraryServer if chosen.library else Server))
    read = time.monotonic()
    power = PowerLoss(traced, seed, chosen.images, chosen.only, chosen.leave and pathlib.Path(chosen.leave))
    faults = traced.faults + power.run()
    if chosen.only is not None:
        return 0
    print(report(traced, power), f"in {read - began:.1f} s and {time.monotonic() - read:.1f} s", flush=True)
    if faults:
        print("\n".join(faults[:FAULTS_SHOWN]), f"\n{len(faults)} faults; the trace is {traced.path}: --trace it with the same --seed and --images")
        return 1
    shutil.rmtree(directory)
    missing = too_little(traced, power, chosen.images)
    if missing:
        print("met too little:", "; ".join(missing))
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
