"""Access to the server's memory, which has keys, passwords and jobs. The server and the reader are the same ordinary user, never root."""

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile

import pytest
from server import BINARY

NOBODY = 65534
KEY = base64.b64encode(b"a key of thirty-two bytes is here").decode()
POLICY = f"allow-host = 127.0.0.1\nsign = default whsec_{KEY}\n"

# Starts a server, searches its memory for the key, aborts it, and prints the result.
LOOK = """
import json, os, resource, signal, subprocess, sys
key = sys.argv[1].encode()
resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
server = subprocess.Popen(sys.argv[2:], stderr=subprocess.PIPE)
for line in server.stderr:
    if b"event=listening" in line:
        break
found = {"owner": os.stat(f"/proc/{server.pid}/mem").st_uid, "user": os.getuid()}
try:
    with open(f"/proc/{server.pid}/maps") as maps, open(f"/proc/{server.pid}/mem", "rb", 0) as memory:
        places = [line.split() for line in maps if " rw-p " in line]
        spans = [[int(end, 16) for end in place[0].split("-")] for place in places]
        found["keys"] = 0
        for start, end in spans:
            if end - start < 1 << 28:
                memory.seek(start)
                try:
                    found["keys"] += memory.read(end - start).count(key)
                except OSError:
                    pass
except OSError as fault:
    found["fault"] = type(fault).__name__
server.send_signal(signal.SIGABRT)
found["core"] = os.WCOREDUMP(os.waitpid(server.pid, 0)[1])
print(json.dumps(found))
"""


@pytest.fixture
def look():
    """look(*flags): what an ordinary user sees of a server of theirs."""
    directory = tempfile.mkdtemp(prefix="tarry-memory-")
    is_root = os.getuid() == 0
    shutil.copy(BINARY, directory + "/tarry")
    with open(directory + "/policy", "w", encoding="ascii", opener=lambda path, flags: os.open(path, flags, 0o600)) as policy:
        policy.write(POLICY)
    if is_root:
        for path in (directory, directory + "/policy"):
            os.chown(path, NOBODY, NOBODY)

    def start(*flags):
        command = [directory + "/tarry", "serve", "--data", directory + "/data", "--listen", "127.0.0.1:0", "--deliver", directory + "/policy", *flags]
        more = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if is_root else {}
        ended = subprocess.run([shutil.which("python3", path="/usr/bin:/bin") or sys.executable, "-c", LOOK, "a key of thirty-two bytes is here", *command],
                               capture_output=True, text=True, cwd=directory, check=False, timeout=60, **more)
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    yield start
    shutil.rmtree(directory, ignore_errors=True)


def test_an_ordinary_user_reads_no_key_in_the_servers_memory_and_gets_no_core(look):
    found = look()
    assert found["user"] != 0 and found["owner"] == 0
    assert found.get("fault") == "PermissionError" and "keys" not in found
    assert not found["core"]


def test_core_dumps_are_allowed_by_an_option(look):
    found = look("--core-dumps")
    assert found["owner"] == found["user"] and "fault" not in found
    assert found["keys"] > 0  # so the test above looks in the right place
