"""`tarry import beanstalk://…`: what is pending in a real beanstalkd comes over, once, whatever stops it on the way."""

import base64
import json
import random
import re
import time
from pathlib import Path

import pytest
from beanstalk import PROGRAM, Beanstalkd, Connection
from client import segment
from migration import NOTHING, OK, REFUSED, UNREACHABLE, USAGE, Gate, begin, ms_of, tarry
from server import free_port

pytestmark = pytest.mark.skipif(not Path(PROGRAM).exists(), reason="no beanstalkd on this machine")

BYTES = bytes(range(256)) * 2


@pytest.fixture
def old():
    with Beanstalkd() as beanstalkd:
        yield beanstalkd


@pytest.fixture
def connection(old):
    with Connection(old.address) as connection:
        yield connection


def put_many(connection, tube, count, delay, priority=0):
    connection(f"use {tube}")
    for at in range(0, count, 500):
        some = range(at, min(count, at + 500))
        connection.send(b"".join(b"put %d %d 60 %d\r\nbody %d\r\n" % (priority, delay(n), len(b"body %d" % n), n) for n in some))
        for _ in some:
            assert connection.answer()[0] == "INSERTED"


def jobs_of(server, topic):
    """{number over there: the job}, with bodies. Empty if there is no topic yet: an import may be killed before its first push."""
    client, cursor, found = server.client(), None, {}
    if client.call("GET", f"/v1/topics/{segment(topic)}").status == 404:
        return found
    while True:
        page = client.list(topic, limit=1000, body="base64", cursor=cursor)
        for job in page["jobs"]:
            number = int(job["id"].rsplit("-", 1)[1])
            assert number not in found, job
            found[number] = {**job, "body": base64.b64decode(job["body_base64"])}
        cursor = page["cursor"]
        if not cursor:
            return found


def left_at(connection):
    return {tube: {state: int(stats[f"current-jobs-{state}"]) for state in ("ready", "delayed", "buried", "reserved") if int(stats[f"current-jobs-{state}"])}
            for tube in connection.stats("list-tubes") for stats in [connection.stats(f"stats-tube {tube}")]}


def test_ready_delayed_and_buried_jobs_come_over_as_they_were(old, connection, server):
    connection("use mail")
    began_ms = time.time() * 1000
    ready, delayed, empty = connection.put(BYTES, priority=7, ttr=90), connection.put(b"later", priority=70000, delay=1000, ttr=5), connection.put(b"", priority=4095, delay=2)
    connection("use a+b/c;d.e$f_(g)")
    buried, released = connection.put(b"buried\r\n", priority=3), connection.put(b"tried", ttr=1)
    for line in ("watch a+b/c;d.e$f_(g)", "ignore default"):
        connection(line)
    assert connection("reserve")[1] == str(released) and connection(f"release {released} 9 500")[0] == "RELEASED"
    assert connection("reserve")[1] == str(buried) and connection(f"bury {buried} 11")[0] == "BURIED"
    _, err = tarry(server, "import", old.url)
    assert "imported 5 jobs: 5 created, 0 existed; 0 refused" in err
    mail, other = jobs_of(server, "mail"), jobs_of(server, "a+b/c;d.e$f_(g)")
    process = connection.stats("stats")["id"]
    assert {job["id"] for job in mail.values()} == {f"{process}-{number}" for number in (ready, delayed, empty)} and set(other) == {buried, released}
    for job in (*mail.values(), *other.values()):
        assert (job["content_type"], job["max_attempts"], job["backoff"]) == ("application/octet-stream", "none", "none")
    assert [mail[ready][name] for name in ("state", "priority", "lease_for", "attempt", "body")] == ["ready", 7, "1m30s", 0, BYTES]
    assert (mail[delayed]["state"], mail[delayed]["lease_for"], mail[delayed]["body"]) == ("delayed", "5s", b"later") and mail[delayed]["priority"] > 4095
    assert mail[empty]["body"] == b"" and mail[empty]["priority"] == 4095
    assert (other[buried]["state"], other[buried]["body"], other[buried]["attempt"], other[buried]["last_error"]) == ("dead", b"buried\r\n", 1, "buried in beanstalkd")
    assert (other[released]["state"], other[released]["attempt"], other[released]["priority"]) == ("delayed", 1, 9)
    for due_ms, delay_s in ((ms_of(mail[delayed]["due_at"]), 1000), (ms_of(other[released]["due_at"]), 500)):
        assert 0 <= due_ms - began_ms - delay_s * 1000 < 10_000, "never early, and about what was left"
    assert left_at(connection) == {"default": {}, "a+b/c;d.e$f_(g)": {}}


def test_reserved_jobs_stay_and_are_named_and_come_when_they_are_free(old, connection, server):
    number = connection.put(b"held")
    connection.put(b"free")
    assert connection("reserve")[1] == str(number)
    out, err = tarry(server, "import", old.url, "--json", code=REFUSED)
    assert json.loads(out) == {"created": 1, "existed": 0, "refused": 0, "left": {"ready": 0, "delayed": 0, "buried": 0, "reserved": 1}}
    assert f"1 job is reserved at '127.0.0.1:{old.address[1]}'" in err
    assert connection(f"release {number} 0 0")[0] == "RELEASED"
    tarry(server, "import", old.url)
    assert len(jobs_of(server, "default")) == 2 and left_at(connection) == {"default": {}}


def test_a_dry_run_shows_the_jobs_and_changes_nothing(old, connection, server):
    put_many(connection, "mail", 3, lambda n: 100)
    connection.put(b"x")
    server.terminate()
    out, _ = tarry(server, "import", old.url, "--dry-run")
    assert out.decode().split("\n")[1:3] == ["default      0        0       0         0", "mail         1        3       0         0"]
    out, _ = tarry(server, "import", old.url, "--dry-run", "--json", "--tube", "mail")
    assert [json.loads(line) for line in out.splitlines()] == [{"tube": "mail", "ready": 1, "delayed": 3, "buried": 0, "reserved": 0}]
    assert left_at(connection)["mail"] == {"ready": 1, "delayed": 3} and connection.stats("stats-tube mail")["cmd-pause-tube"] == "0"
    server.start()


def test_only_the_tubes_that_are_named_come(old, connection, server):
    for tube in ("a", "b", "c"):
        put_many(connection, tube, 3, lambda n: 100 * n)
    tarry(server, "import", old.url, "--tube", "a", "--tube", "c")
    assert {topic["topic"] for topic in server.client().topics()} == {"a", "c"}
    assert left_at(connection)["b"] == {"ready": 1, "delayed": 2} and connection.stats("stats-tube b")["cmd-pause-tube"] == "0"
    _, err = tarry(server, "import", old.url, "--tube", "nobody", code=NOTHING)
    assert "there is no tube 'nobody'" in err


def test_consumers_of_beanstalkd_pause_during_the_import_and_continue_afterwards(old, connection, server):
    put_many(connection, "mail", 200, lambda n: n % 2)
    connection("watch mail")
    with Gate(server, up=5_000) as gate:
        running = begin(gate, "import", old.url)
        gate.wait(running)
        assert connection("reserve-with-timeout 0") == ["TIMED_OUT"]
        gate.open()
        assert running.wait(60) == OK, running.stderr.read()
    put_many(connection, "mail", 1, lambda n: 0)
    assert connection("reserve-with-timeout 5")[0] == "RESERVED"


def test_a_tube_that_was_paused_over_there_is_paused_again_afterwards(old, connection, server):
    put_many(connection, "mail", 3, lambda n: 0)
    put_many(connection, "other", 1, lambda n: 0)
    connection("watch mail")
    connection("watch other")
    assert connection("pause-tube mail 600") == ["PAUSED"]
    tarry(server, "import", old.url)
    assert 500 < int(connection.stats("stats-tube mail")["pause-time-left"]) <= 600 and connection.stats("stats-tube other")["pause-time-left"] == "0"


@pytest.mark.parametrize("seed", [int(time.time())])
def test_killed_again_and_again_it_doubles_nothing_and_loses_nothing(old, connection, server, seed):
    """Kills the import before the server has a batch, or before its answer arrives; each time the next run continues."""
    rng, count, kills = random.Random(seed), 2500, 0
    began = time.time()
    put_many(connection, "mail", count, lambda n: 0 if n % 3 else 1000 + n)
    for line in ("watch mail", "ignore default"):
        connection(line)
    for _ in range(20):
        connection(f"bury {connection('reserve')[1]} 0")
    while True:
        with Gate(server, **{rng.choice(("up", "down")): rng.randrange(2000, 120_000)}) as gate:
            running = begin(gate, "import", old.url)
            while running.poll() is None and not gate.held.wait(0.01):
                pass
            if running.poll() is not None:
                assert running.returncode == OK, running.stderr.read()
                break
            running.kill()
            running.wait()
            kills += 1
        numbers = jobs_of(server, "mail")
        assert len(numbers) + sum(left_at(connection)["mail"].values()) >= count, "lost"
        assert connection("reserve-with-timeout 0") == ["TIMED_OUT"], "handed out there, while it may be here"
        running.stderr.close()
    jobs = jobs_of(server, "mail")
    assert kills >= 2 and left_at(connection)["mail"] == {}
    assert sorted(job["body"] for job in jobs.values()) == sorted(b"body %d" % n for n in range(count)), f"seed {seed}"
    for job in jobs.values():
        n = int(job["body"][5:])
        assert n % 3 or 1000 + n <= ms_of(job["due_at"]) / 1000 - began < 1060 + n, job
    assert server.client().topic("mail")["counts"]["dead"] == 20


def test_a_finished_job_is_not_imported_again_if_the_topic_remembers_ids(old, connection, server):
    client = server.client()
    client.put_topic("default", dedup_window="1h")
    put_many(connection, "default", 60, lambda n: 0)
    with Gate(server, down=len(client.call("GET", "/v1/info").body) + 2000) as gate:  # in the answer to their push
        running = begin(gate, "import", old.url)
        gate.wait(running)
        running.kill()
        running.communicate()
    done = client.take("default", max=100, wait="5s")
    client.ack(*[job["lease"] for job in done])
    assert left_at(connection) == {"default": {"ready": 60}} and len(done) == 60
    _, err = tarry(server, "import", old.url)
    assert "60 existed" in err and left_at(connection) == {"default": {}} and client.take("default") == []


def test_jobs_that_the_server_refuses_stay_and_are_named(old, connection, start_server):
    server = start_server("--sync", "always", "--shards", "1", "--max-body", "10KiB")
    connection("use mail")
    first, *_ = connection.put(b"x" * 20_000, delay=50), connection.put(b"y", delay=60), connection.put(b"z")
    _, err = tarry(server, "import", old.url, code=REFUSED)
    assert re.search(f"job {first} of tube 'mail' refused: body_too_big, the body is above", err) and "; 1 refused" in err and "1 job is left" in err
    assert len(jobs_of(server, "mail")) == 2 and left_at(connection)["mail"] == {"delayed": 1}
    assert connection.stats("stats-tube mail")["pause-time-left"] == "0"


def test_an_import_ends_if_the_server_rejects_everything(old, connection, start_server):
    server = start_server("--sync", "always", "--shards", "1", "--max-body", "1KiB")
    body = b"x" * 2000
    for at in range(0, 3000, 500):
        connection.send(b"put 0 100 60 2000\r\n%s\r\n" % body * 500)
        assert all(connection.answer()[0] == "INSERTED" for _ in range(500)), at
    _, err = tarry(server, "import", old.url, code=REFUSED)
    assert len(re.findall("refused: body_too_big", err)) < 3000 and left_at(connection)["default"] == {"delayed": 3000}


def test_large_bodies_go_in_several_batches(server):
    with Beanstalkd("-z", 1 << 20) as old, Connection(old.address) as connection:
        bodies = [bytes([n]) * (1 << 20 if n % 2 else 300_000) for n in range(24)]
        for body in bodies:
            connection.put(body, delay=100)
        tarry(server, "import", old.url)
        assert sorted(job["body"] for job in jobs_of(server, "default").values()) == sorted(bodies)


def test_jobs_far_apart_are_found(old, connection, server):
    put_many(connection, "gone", 3000, lambda n: 0 if n % 700 else 300 + 3000 - n)
    connection("watch gone")
    for _ in range(2995):
        connection(f"delete {connection('reserve')[1]}")
    tarry(server, "import", old.url)
    assert sorted(job["body"] for job in jobs_of(server, "gone").values()) == sorted(b"body %d" % n for n in range(0, 3000, 700))


def test_two_servers_with_the_same_numbers_hide_nothing_of_each_other(old, connection, server):
    with Beanstalkd() as second, Connection(second.address) as second_connection:
        assert connection.put(b"of the first", delay=100) == second_connection.put(b"of the second", delay=100)
        tarry(server, "import", old.url)
        tarry(server, "import", second.url)
    assert {job["body"] for job in server.client().list("default", body="true")["jobs"]} == {"of the first", "of the second"}


def test_a_job_that_is_deleted_there_on_its_way_is_named(old, connection, server):
    number = connection.put(b"x" * 3000, delay=100)
    with Gate(server, up=2_000) as gate:
        running = begin(gate, "import", old.url)
        gate.wait(running)
        assert connection(f"delete {number}") == ["DELETED"]
        gate.open()
        err = running.communicate(timeout=60)[1]
    assert running.returncode == OK and f"job {number} of tube 'default' was taken or deleted in beanstalkd during the import".encode() in err, err


def test_after_a_lost_server_the_tubes_stay_paused_until_the_next_run(old, connection, server):
    put_many(connection, "mail", 100, lambda n: 0)
    with Gate(server, down=len(server.client().call("GET", "/v1/info").body) + 2000) as gate:  # in the answer to the first batch
        running = begin(gate, "import", old.url, "--retry-for", "100ms")
        gate.wait(running)
        server.kill()
        gate.cut()
        err = running.communicate(timeout=60)[1]
    assert running.returncode == UNREACHABLE and b"stay paused" in err, err
    connection("watch mail")
    assert connection("reserve-with-timeout 0") == ["TIMED_OUT"] and left_at(connection)["mail"] == {"ready": 100}
    server.start()
    tarry(server, "import", old.url)
    assert len(jobs_of(server, "mail")) == 100 and left_at(connection)["mail"] == {}


@pytest.mark.plain("what answers as no beanstalkd does is a server without TLS here")
def test_invalid_arguments_are_reported(old, server, tmp_path):
    for arguments, part in ((("beanstalk://",), "give one such as"), (("beanstalk://u:secret@127.0.0.1",), "give one such as"), (("beanstalk://127.0.0.1:1/path",), "give one such as"),
                            ((old.url, "--state", "x"), "are for files"), ((old.url, "--on-conflict", "replace"), "are for files"), (("--tube", "x"), "are for beanstalkd"),
                            ((str(tmp_path / "x"), "--dry-run"), "are for beanstalkd"), ((old.url, "--tube", "a b"), "the name of a tube")):
        _, err = tarry(server, "import", *arguments, code=USAGE)
        assert part in err and "secret" not in err, err
    _, err = tarry(server, "import", f"beanstalk://127.0.0.1:{free_port()}", code=REFUSED)
    assert "cannot reach beanstalkd" in err
    _, err = tarry(server, "import", f"beanstalk://127.0.0.1:{server.port}", code=REFUSED)
    assert "unexpected answer 'HTTP/1.1 400" in err, err
