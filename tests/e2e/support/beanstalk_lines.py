"""
Random lines, wrong ones above all, side by side with Debian's beanstalkd: both answer the same words.

    python3 tests/e2e/support/beanstalk_lines.py [--seconds 30] [--seed N]

Each case is a connection of its own: a few lines and some that are right behind them in one packet. Ids, bodies and figures are not compared,
nor whether a job was there to be reserved: test_beanstalk.py does that. Exit code 1: answers differ; the case is shown.
"""

import argparse
import pathlib
import random
import re
import socket
import sys
import tempfile
import time

sys.path[:0] = [str(pathlib.Path(__file__).parent)]

from beanstalk import WITH_BODY, Beanstalkd  # noqa: E402
from server import Server  # noqa: E402

NUMBERS = ["0", "99999999", "4294967295", "4294967296", "18446744073709551615", "18446744073709551616", "-1", "+1", "0x1", "1a", "1.5", "", " 99999999", "0099999999"]  # ids that no job has
NAMES = ["default", "t", "a" * 200, "a" * 201, "-a", "a-", "a b", "", "$_()+/;.", "ü", "a\0b", "A9"]
LINES = [
    "put {n} 0 {n} {s}", "put {n} {n} 10", "put", "peek {n}", "peek-ready", "peek-delayed", "peek-buried", "reserve-with-timeout 0",
    "reserve-job {n}", "delete {n}", "release {n} {n} {n}", "use {t}", "watch {t}", "ignore {t}", "bury {n} {n}", "kick {n}",
    "kick-job {n}", "touch {n}", "stats", "stats-job {n}", "stats-tube {t}", "list-tubes", "list-tube-used", "list-tubes-watched", "pause-tube {t} {n}", "quit",
    "", "x", "PUT 0 0 0 0", "y" * 221, "y" * 300,
]
NOISE = [b" ", b"\0", b"\r", b"\n", b"-", b"0", b"9", b"a", b"\xff", b"\t", b"."]
# Known differences: a dot at the front, requests of a web page, TLS; anything after quit, after a number of kick and, up to 1.12, of reserve-with-timeout; a CR
# within a line, or as its 224th byte, where beanstalkd takes the next line for a part of it. And delays: jobs would fall due at another moment
# here than there.
SKIPPED = re.compile(rb"(?s)\r[^\n]|\n[^\r]{222,223}\r|quit.|kick (?!\d{1,9}\r)|timeout (?!\d{1,9}\r)|(^|\n)[^\n]*[ ]\.|(^|\n)(GET|POST|PUT|HEAD|OPTIONS|Host:|\x16)|put +\d+ +[1-9]|(delete|peek|bury|touch|release|-job) +0*\d{1,7}\b|release +\d+ +\d+ +[1-9]")


def fill(rng, text):
    return re.sub(r"\{(.)\}", lambda found: rng.choice({"n": NUMBERS, "t": NAMES, "s": ["0", "1", "5", "4294967296", "x"]}[found[1]]), text)


def one_case(rng):
    while True:
        packet = b"use t\r\n"
        for _ in range(rng.randint(1, 4)):
            line = fill(rng, rng.choice(LINES)).encode()
            for _ in range(rng.choice([0, 0, 0, 1, 2])):
                at = rng.randint(0, len(line))
                line = line[:at] + rng.choice([b"", rng.choice(NOISE)]) + line[at + rng.randint(0, 1):]
            packet += line + b"\r\n"
            if line.startswith(b"put "):
                packet += rng.choice([b"", b"\r\n", b"x\r\n", b"abcde\r\n", b"abcdef\r\n"])
        if not SKIPPED.search(packet):
            return packet


def words(address, packet):
    """First words of all answers. Those of awaited jobs are equal; so are those of tubes, which exist for longer here."""
    alike = ["RESERVED", "TIMED_OUT", "DEADLINE_SOON", *(["OK", "PAUSED", "NOT_FOUND"] if b"-tube " in packet else [])]
    with socket.create_connection(address) as one:
        one.settimeout(1)
        one.sendall(packet + b"\r\n" + b"list-tube-used\r\n" * 40 + b"quit\r\n")
        reader, found = one.makefile("rb"), []
        try:
            while (line := reader.readline()).endswith(b"\r\n"):
                parts = line[:-2].decode("latin-1").split(" ")
                if parts[0] in WITH_BODY:
                    reader.read(int(parts[-1]) + 2)
                found.append("-" if parts[0] in alike else parts[0])
        except (ConnectionResetError, TimeoutError):  # it had closed with something of ours unread; or a job is not whole, or waited for
            pass
        return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    answer = parser.parse_args()
    rng, count, until = random.Random(answer.seed), 0, time.monotonic() + answer.seconds
    with tempfile.TemporaryDirectory(prefix="tarry-lines-") as directory, Beanstalkd() as theirs:
        ours = Server(directory, ["--beanstalk", "127.0.0.1:0", "--sync", "never"])
        ours.start()
        address = "127.0.0.1", int(re.findall(r"address=127\.0\.0\.1:(\d+) protocol=beanstalk", ours.log())[-1])
        try:
            while time.monotonic() < until:
                packet = one_case(rng)
                answers = words(address, packet), words(theirs.address, packet)
                if answers[0] != answers[1]:
                    print(f"seed {answer.seed}, case {count}: {packet!r}\n  tarry      {answers[0]}\n  beanstalkd {answers[1]}")
                    return 1
                count += 1
        finally:
            ours.terminate()
    print(f"{count} cases alike (seed {answer.seed})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
