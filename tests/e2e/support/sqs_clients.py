"""
Programs that were written for Amazon SQS, against a real server: their actions and own checks are in tests/sqs, the state of the server is checked
here, by HTTP.

    python3 tests/e2e/support/sqs_clients.py [javascript java go sqs-consumer celery spring]

Their packages come from npm, Maven, Go's proxy and PyPI, once, into the user's cache. A client whose tools are missing is reported as not tried.
Exit code 1: a client that was tried failed.
"""

import base64
import contextlib
import datetime
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import uuid

sys.path[:0] = [str(pathlib.Path(__file__).parent)]

from delivery import counts, totals  # noqa: E402
from server import REPO, Server, eventually  # noqa: E402

PROGRAMS = REPO / "tests/sqs"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "tarry-tests"
REGION, ACCOUNT = "us-east-1", "123456789012"
SMALL = ("--shards", "1", "--wal-file", "16MiB")
INSTALL_SECONDS, RUN_SECONDS = 300, 120
DAY = 86400
CELERY = ("celery==5.7.0", "kombu[sqs]==5.7.0")
ATTRIBUTES = {"Customer": ("String", "Grüße"), "total.eur": ("Number.cents", "1250"), "raw": ("Binary", bytes([0, 1, 254, 255]))}


class NotHere(Exception):
    """A dependency of a client cannot be fetched."""


# ---- dependencies ----

def installed(name, files, install):
    """The directory with the files and what install(directory) adds to it: made once for each wording of the files."""
    wording = hashlib.sha256(b"\0".join(one if isinstance(one, bytes) else one.read_bytes() for one in files)).hexdigest()[:12]
    directory = CACHE / f"sqs-{name}-{wording}"
    if not directory.is_dir():
        fresh = directory.with_name(f"{directory.name}-{os.getpid()}")
        fresh.mkdir(parents=True)
        for one in files:
            if not isinstance(one, bytes):
                shutil.copy(one, fresh)
        try:
            install(fresh)
        except (OSError, subprocess.SubprocessError) as fault:
            shutil.rmtree(fresh, ignore_errors=True)
            raise NotHere(f"{fault} {(getattr(fault, 'stderr', '') or '')[-500:]}") from fault
        try:
            fresh.rename(directory)
        except OSError:
            shutil.rmtree(fresh)  # another process was faster
    return directory


def make(directory, *command):
    subprocess.run(command, cwd=directory, capture_output=True, text=True, check=True, timeout=INSTALL_SECONDS)


def node_command(program):
    directory = installed("javascript", [PROGRAMS / "javascript/package.json"], lambda at: make(at, "npm", "install", "--no-audit", "--no-fund", "--silent"))
    shutil.copy(PROGRAMS / "javascript" / program, directory)  # modules are looked for beside it
    return ["node", str(directory / program)]


def java_command(name, main):
    """A class of its own directory, compiled, with its jars."""
    source = next((PROGRAMS / name).glob("*.java"))

    def install(at):
        make(at, "mvn", "-q", "-B", "dependency:build-classpath", "-Dmdep.outputFile=classpath")
        make(at, "javac", "-parameters", "-cp", (at / "classpath").read_text(encoding="utf-8"), "-d", "classes", str(at / source.name))

    directory = installed(name, [PROGRAMS / name / "pom.xml", source], install)
    return ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", f"{directory}/classes:{(directory / 'classpath').read_text(encoding='utf-8')}", main]


def go_command():
    files = [PROGRAMS / "go" / name for name in ("go.mod", "go.sum", "sdk.go")]
    return [str(installed("go", files, lambda at: make(at, "go", "build", "-o", "sdk", ".")) / "sdk")]


def celery_directory():
    pip = (sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--root-user-action=ignore", "--target", "lib", *CELERY)
    return installed("celery", [" ".join(CELERY).encode()], lambda at: make(at, *pip)) / "lib"


# ---- what must have become of it ----

def md5_of(attributes):
    """Computes the digest of SQS's manual."""
    digest = hashlib.md5(usedforsecurity=False)

    def add(data):
        digest.update(len(data).to_bytes(4, "big") + data)

    for name in sorted(attributes):
        kind, value = attributes[name]
        add(name.encode())
        add(kind.encode())
        digest.update(b"\2" if isinstance(value, bytes) else b"\1")
        add(value if isinstance(value, bytes) else value.encode())
    return digest.hexdigest()


def due_in(job):
    """Seconds from now."""
    return datetime.datetime.fromisoformat(job["due_at"]).timestamp() - datetime.datetime.now().timestamp()


def delayed(client, topic):
    return client.good("GET", f"/v1/topics/{topic}/jobs?state=delayed&body=true")["jobs"]


def cancel(client, topic, job):
    assert client.good("DELETE", f"/v1/topics/{topic}/jobs/{job['id']}")["result"] == "cancelled"


def ulid_of(number):
    """A message's id, as tarry shows the same bits."""
    text, value = "", uuid.UUID(number).int
    for _ in range(26):
        text, value = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"[value & 31] + text, value >> 5
    return text


def run(command, topic, server, **env):
    """The last line that a program printed, as JSON."""
    done = subprocess.run([*command, topic], capture_output=True, text=True, timeout=RUN_SECONDS, check=False, env={**os.environ, **aws(server), **env})
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


def aws(server):
    return {"AWS_ENDPOINT_URL_SQS": server.url, "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION, "AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any",
            "AWS_EC2_METADATA_DISABLED": "true"}


def sdk(command, topic, server):
    """The life that sdk.mjs, Sdk.java and sdk.go lead: all of it deleted but for the message in a day."""
    answer, client = run(command, topic, server), server.client()
    assert 2 <= answer["waited"] < 30, answer
    assert answer["md5s"] == [md5_of(ATTRIBUTES)] * 4, (answer, md5_of(ATTRIBUTES))
    assert answer["pending"] == [0, 0, 1], answer
    (job,) = delayed(client, topic)
    assert job["id"] == ulid_of(answer["day"]) and job["body"] == "in a day" and DAY - RUN_SECONDS < due_in(job) <= DAY, job
    assert totals(client, topic)["acked"] == 11 and totals(client, f"{topic}-dead")["acked"] == 1
    cancel(client, topic, job)


def sqs_consumer(command, topic, server):
    assert run(command, topic, server) == {"handled": 11}
    client = server.client()
    assert totals(client, topic)["acked"] == 11 and set(counts(client, topic).values()) == {0}, client.topic(topic)


def spring(command, topic, server):
    server.client().put_topic(topic, max_attempts="none", backoff="none")
    answer, client = run(command, topic, server), server.client()
    assert answer["received"] == 12, answer
    (job,) = delayed(client, topic)
    assert job["id"] == ulid_of(answer["day"]) and DAY - RUN_SECONDS < due_in(job) <= DAY, job
    assert totals(client, topic)["acked"] == 12
    cancel(client, topic, job)


def celery(lib, topic, server):
    client = server.client()
    with tempfile.TemporaryDirectory() as directory:
        notes = pathlib.Path(directory, "notes")
        notes.touch()
        env = {**os.environ, **aws(server), "PYTHONPATH": f"{lib}:{PROGRAMS / 'celery'}", "PYTHONDONTWRITEBYTECODE": "1", "QUEUE": topic,
               "BROKER": f"sqs://any:any@127.0.0.1:{server.port}", "NOTES": str(notes)}
        sent = subprocess.run([sys.executable, PROGRAMS / "celery/shop.py"], env=env, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
        assert sent.returncode == 0, sent.stderr[-4000:]
        tasks = json.loads(sent.stdout)
        with open(f"{directory}/log", "wb") as log:
            worker = subprocess.Popen([sys.executable, "-m", "celery", "-A", "shop", "worker", "--pool=solo", "--without-gossip", "--without-mingle", "--without-heartbeat",
                                       "--loglevel=INFO"],
                                      cwd=directory, env=env, stdout=log, stderr=log)
        try:
            def noted(*texts):
                eventually(lambda: sorted(notes.read_text(encoding="utf-8").splitlines()) == sorted(texts), RUN_SECONDS)

            early = ("now", "in a second", "fails once", "in two seconds, held by the worker")
            noted(*early)
            waiting = {task_of(job): job for job in delayed(client, topic)}
            assert set(waiting) == {tasks["in a day"], tasks["in two days"]}, waiting
            day, two_days = waiting[tasks["in a day"]], waiting[tasks["in two days"]]
            for job, seconds in ((day, DAY), (two_days, 2 * DAY)):
                assert seconds - RUN_SECONDS < due_in(job) <= seconds, job
            cancel(client, topic, two_days)
            client.good("POST", f"/v1/topics/{topic}/jobs/{day['id']}/run")
            noted(*early, "in a day")
            eventually(lambda: set(counts(client, topic).values()) == {0}, RUN_SECONDS)
        except Exception:
            print(pathlib.Path(directory, "log").read_text(encoding="utf-8", errors="replace")[-4000:])
            raise
        finally:
            worker.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.wait(20)
            worker.kill()
            worker.wait()


def task_of(job):
    """The id of the task in the body of its message, which is base64."""
    body = job["body"]
    return (body if isinstance(body, dict) else json.loads(base64.b64decode(body)))["headers"]["id"]


CLIENTS = {
    "javascript": ("npm", lambda: node_command("sdk.mjs"), sdk),
    "sqs-consumer": ("npm", lambda: node_command("consumer.mjs"), sqs_consumer),
    "java": ("mvn", lambda: java_command("java", "Sdk"), sdk),
    "go": ("go", go_command, sdk),
    "celery": (sys.executable, celery_directory, celery),
    "spring": ("mvn", lambda: java_command("spring", "shop.Shop"), spring),
}


def tried(name, server):
    """Fails where the client does not do what it should; NotHere where it cannot be had."""
    tool, command, check = CLIENTS[name]
    if not shutil.which(tool):
        raise NotHere(f"there is no '{tool}'")
    check(command(), name, server)


def main(names):
    bad = 0
    with tempfile.TemporaryDirectory(prefix="tarry-sqs-") as directory:
        server = Server(directory, ["--sqs", f"{REGION}/{ACCOUNT}", *SMALL]).start()
        try:
            for name in names or CLIENTS:
                try:
                    tried(name, server)
                    print(f"{name}: does what it should", flush=True)
                except NotHere as why:
                    print(f"{name}: not tried: {why}", flush=True)
                except (AssertionError, ValueError, subprocess.TimeoutExpired) as fault:
                    bad = 1
                    print(f"{name}: {type(fault).__name__}: {fault}", flush=True)
        finally:
            server.terminate()
    return bad


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
