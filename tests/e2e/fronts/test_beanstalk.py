"""`--beanstalk`: answers to a client of beanstalkd, also compared with beanstalkd itself."""

import contextlib
import json
import random
import re
import threading
import time
from pathlib import Path

import pytest
from beanstalk import PROGRAM, Beanstalkd, Connection
from postgres import PostgresServer
from redis_servers import RedisServer
from server import eventually, slack

SEED = 20261126


SHARDED = pytest.param("sharded", marks=pytest.mark.thorough("contract.local_3 has several shards"))
STORES = pytest.mark.parametrize("server", ["embedded", SHARDED, "redis"], indirect=True)
SQL_TOO = pytest.mark.parametrize("server", ["embedded", SHARDED, "redis", "postgres"], indirect=True)


@pytest.fixture
def server(request, start_server):
    store = getattr(request, "param", "embedded")
    with {"redis": RedisServer, "postgres": lambda: PostgresServer("fsync=off")}.get(store, contextlib.nullcontext)() as shared:
        flags = {
            "redis": lambda: ["--store", shared.url],
            "postgres": lambda: ["--store", shared.url, "--migrate"],
            "sharded": lambda: ["--shards", "3", "--sync", "never"],
            "embedded": lambda: ["--sync", "never"],
        }[store]()
        server = start_server("--beanstalk", "127.0.0.1:0", *flags)
        yield server
        assert server.terminate() == 0


def address(server):
    port = re.findall(r'address=127\.0\.0\.1:(\d+) protocol=beanstalk', server.log())[-1]
    return "127.0.0.1", int(port)


@pytest.fixture
def connect(server):
    opened = []

    def one():
        opened.append(Connection(address(server)))
        return opened[-1]

    yield one
    for connection in opened:
        connection.close()


# ---- jobs ----


@SQL_TOO
def test_a_job_goes_through(connect):
    one = connect()
    assert one("use mail") == ["USING", "mail"] and one.put("hello", 7, 0, 30) == 1 and one.put("", 3) == 2
    assert one("watch mail") == ["WATCHING", "2"] and one("ignore default") == ["WATCHING", "1"] and one("ignore mail") == ["NOT_IGNORED"]
    assert one("reserve") == ["RESERVED", "2", b""], "the more urgent one"
    assert one("reserve") == ["RESERVED", "1", b"hello"] and one("reserve-with-timeout 0") == ["TIMED_OUT"]
    assert one("release 1 9 0") == ["RELEASED"] and one("bury 2 5") == ["BURIED"] and one("touch 1") == ["NOT_FOUND"]
    stats = one.stats("stats-job 1")
    assert (stats["state"], stats["pri"], stats["reserves"], stats["tube"], stats["ttr"]) == ("ready", "9", "1", "mail", "30")
    assert one.stats("stats-job 2")["state"] == "buried" and one("kick 10") == ["KICKED", "1"]
    assert one("delete 1") == ["DELETED"] and one("delete 2") == ["DELETED"] and one("delete 2") == ["NOT_FOUND"]


def test_a_job_is_one_of_the_queue(connect, server):
    one, client = connect(), server.client()
    one("use shared")
    number = one.put(b"\x00\xff binary", 5, 3600)
    assert client.get("shared", str(number))["state"] == "delayed"
    client.push("shared", "a-name", b"from http", priority=1)
    one("watch shared")
    words = one("reserve")
    assert words[0] == "RESERVED" and int(words[1]) >= 1 << 52 and words[2] == b"from http", "a job whose id is no number has one here"
    assert one(f"delete {words[1]}") == ["DELETED"] and one(f"peek {words[1]}") == ["NOT_FOUND"]
    assert one(f"kick-job {number}") == ["KICKED"] and one("reserve")[1:] == [str(number), b"\x00\xff binary"]


def test_a_job_with_a_cancel_request_by_http_ends_with_its_release(connect, server):
    one = connect()
    for command in ("release {} 0 0", "bury {} 0"):
        number = one.put("a")
        assert one("reserve")[1] == str(number)
        server.client().good("DELETE", f"/v1/topics/default/jobs/{number}?request=true")
        assert one(command.format(number)) == [{"r": "RELEASED", "b": "BURIED"}[command[0]]] and one(f"peek {number}") == ["NOT_FOUND"]
        assert one(f"touch {number}") == ["NOT_FOUND"], "it is nobody's any more"


@STORES
def test_a_closed_connection_returns_its_jobs_and_that_counts(connect, server):
    one, two = connect(), connect()
    number = two.put("a")
    assert one("reserve")[1] == str(number)
    assert two(f"delete {number}") == ["NOT_FOUND"], "another holds it"
    one.close()
    assert two("reserve-with-timeout 10")[1] == str(number)
    assert two.stats(f"stats-job {number}")["reserves"] == "2"


@STORES
def test_a_job_without_a_ttr_uses_the_lease_of_its_topic(connect, server):
    client = server.client()
    client.put_topic("mail", lease_for="1500ms", backoff="none")
    client.push("mail", "by-http", b"x")
    one = connect()
    one("watch mail")
    assert one("reserve")[0] == "RESERVED"
    began = time.monotonic()
    assert client.take("mail", wait="30s", max=1)[0]["attempt"] == 2, "nobody answered"
    assert time.monotonic() - began < 20 * slack()


@SQL_TOO
def test_a_waiting_client_is_answered_immediately(connect):
    one, two = connect(), connect()
    one.send("reserve\r\n")
    eventually(lambda: two.stats("stats")["current-waiting"] == "1")
    two.put("x")
    began = time.monotonic()
    assert one.answer()[0] == "RESERVED" and time.monotonic() - began < 2 * slack()


def test_deadline_soon_is_sent_in_the_last_second(connect):
    one = connect()
    one.put("a", ttr=2)
    assert one("reserve")[0] == "RESERVED"
    began = time.monotonic()
    assert one("reserve") == ["DEADLINE_SOON"] and 0.5 < time.monotonic() - began < 4 * slack()
    assert one("delete 1") == ["DELETED"]


@pytest.mark.parametrize("store", ["embedded", "redis"])
def test_the_time_of_a_job_is_that_of_a_test_clock(start_server, store):
    with RedisServer() if store == "redis" else contextlib.nullcontext() as redis:
        server = start_server("--beanstalk", "127.0.0.1:0", "--test-clock=2030-01-01T00:00:00Z", *(["--store", redis.url] if redis else []))
        client = server.client()
        with Connection(address(server)) as one, Connection(address(server)) as two:
            one.put("a", ttr=3000)
            assert one("reserve")[0] == "RESERVED"
            one.send("reserve\r\n")
            eventually(lambda: two.stats("stats")["current-waiting"] == "1")
            client.good("POST", "/v1/clock/advance?by=2998s")
            assert two.stats("stats-job 1")["time-left"] == "1"
            client.good("POST", "/v1/clock/advance?by=1s")
            assert one.answer() == ["DEADLINE_SOON"] and one("touch 1") == ["TOUCHED"]
            client.good("POST", "/v1/clock/advance?by=3000s")
            assert one("touch 1") == ["NOT_FOUND"] and one("reserve")[1] == "1" and one.stats("stats")["job-timeouts"] == "1"
            assert one.stats("stats-job 1")["timeouts"] == "1"
        assert server.terminate() == 0


def test_a_paused_tube_gives_nothing(connect):
    one = connect()
    one.put("a")
    assert one("pause-tube default 1") == ["PAUSED"] and one("reserve-with-timeout 0") == ["TIMED_OUT"]
    assert one("reserve-with-timeout 20")[0] == "RESERVED" and one("pause-tube nobody 1") == ["NOT_FOUND"]


@STORES
def test_a_kick_of_delayed_jobs_respects_its_bound(connect):
    one = connect()
    one.send(b"".join(b"put 0 %d 60 0\r\n\r\n" % (1000 + i) for i in range(2500)))
    assert all(one.answer()[0] == "INSERTED" for _ in range(2500))
    assert one("kick 2200") == ["KICKED", "2200"] and one.stats("stats-job 2200")["state"] == "ready" and one.stats("stats-job 2201")["state"] == "delayed"
    assert one("kick 4294967295") == ["KICKED", "300"] and one("kick 1") == ["KICKED", "0"]


def test_only_topics_of_tarrys_own_are_not_shown(connect, server):
    lines = "".join(json.dumps({"topic": topic, "id": "a", "body": "x"}) + "\n" for topic in ("tarry.dead", "tarry-orders"))
    assert server.client().call("POST", "/v1/jobs?restore=true", lines.encode(), {"Content-Type": "application/x-ndjson"}).status == 200
    one = connect()
    assert one.stats("list-tubes") == ["default", "tarry-orders"]
    assert one.stats("stats")["current-jobs-ready"] == "1"


def test_errors_are_answered(connect):
    one = connect()
    for line, answer in {"nothing": "UNKNOWN_COMMAND", "reserve ": "BAD_FORMAT", "use -a": "BAD_FORMAT", "use " + "a" * 201: "BAD_FORMAT",
                         "peek x": "BAD_FORMAT", "x" * 500: "BAD_FORMAT", "delete 99": "NOT_FOUND", "kick-job 99": "NOT_FOUND",
                         "put 0 0 0 1 x": "BAD_FORMAT", "release 1 0 4294967296": "BAD_FORMAT"}.items():
        assert one(line) == [answer], line
    one.send(b"put 0 0 1 3\r\nabcde")
    assert one.answer() == ["EXPECTED_CRLF"]
    assert connect()("put 0 0 1", b"x" * 65536) == ["JOB_TOO_BIG"]


PUT = b"put 0 0 60 5\r\nhello\r\n"
HELLO = b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + bytes(32) + b"\x20\r\n" + PUT
FOREIGN = {
    "a page that posts": b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" + PUT,
    "a long path": b"POST /" + b"a" * 300 + b" HTTP/1.1\r\nhost: x\r\n\r\n" + PUT,
    "a path longer than a read": b"POST /" + b"a" * 200_000 + b" HTTP/1.1\r\nhost: x\r\n\r\n" + PUT,
    "another method": b"DELETE / HTTP/1.1\r\nhost: x\r\n\r\n" + PUT,
    "a method that no standard has": b"frob http://x/ HTTP/1.0\r\n\r\n" + PUT,
    "the first line of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + PUT,
    "HTTP/0.9": b"PATCH /\r\n" + PUT,
    "a header in small letters": b"host: x\r\n" + PUT,
    "a header in capitals": b"HOST: x\r\n" + PUT,
    "a handshake of TLS that holds commands": HELLO,
    "a handshake behind a command": b"list-tube-used\r\n" + HELLO,
}


@pytest.mark.parametrize("name", FOREIGN)
def test_http_and_tls_clients_put_nothing(server, name):
    with Connection(address(server)) as one:
        with contextlib.suppress(ConnectionError):
            one.send(FOREIGN[name])
            assert one.answer() in (None, ["USING", "default"])
            assert one.answer() is None
    with Connection(address(server)) as one:
        assert one.stats("stats")["total-jobs"] == "0"


def test_a_request_of_http_is_noticed_at_any_cut(server):
    data = FOREIGN["a long path"]
    for cut in (*range(300, 318), len(data) - 20):
        with Connection(address(server)) as one, contextlib.suppress(ConnectionError):
            one.send(data[:cut])
            time.sleep(0.01)
            one.send(data[cut:])
            assert one.answer() is None, cut
    with Connection(address(server)) as one:
        assert one.stats("stats")["total-jobs"] == "0"


def test_a_tube_may_have_a_name_like_a_version_of_http(connect):
    one = connect()
    assert one("use HTTP/1.1") == ["USING", "HTTP/1.1"] and one("watch HTTP/1.1") == ["WATCHING", "2"]


def test_while_the_server_drains_no_job_is_put(connect, server):
    one = connect()
    number = one.put("a")
    server.client().good("POST", "/v1/drain")
    assert one("put 0 0 1", b"x") == ["DRAINING"] and one("reserve")[1] == str(number) and one(f"delete {number}") == ["DELETED"]
    assert one.stats("stats")["draining"] == "true"


def test_a_server_that_begins_drained_takes_no_job(start_server, tmp_path):
    start_server("--beanstalk", f"unix:{tmp_path}/b", "--drain")
    with Connection(f"{tmp_path}/b") as one:
        assert one("put 0 0 1", b"put 0 0 1 1") == ["DRAINING"] and one("put 0 0 1", b"x") == ["DRAINING"], "its body is no command"
        assert one.stats("stats")["draining"] == "true"


def test_numbers_continue_after_a_restart(start_server, tmp_path):
    server = start_server("--beanstalk", f"unix:{tmp_path}/b", directory=tmp_path / "d")
    with Connection(f"{tmp_path}/b") as one:
        assert [one.put("x") for _ in range(3)] == [1, 2, 3]
    assert server.terminate() == 0
    start_server("--beanstalk", f"unix:{tmp_path}/b", directory=tmp_path / "d")
    with Connection(f"{tmp_path}/b") as one:
        assert one.put("x") == 1001 and one("peek 3")[0] == "FOUND", "in the next block, so that no two servers meet"


def test_a_reserved_job_is_found_although_another_topic_has_its_number(connect, server):
    one = connect()
    one("use mail"), one("watch mail")
    number = one.put("a")
    server.client().push("accounts", str(number), b"b", delay="1h")  # its name comes first
    one("reserve")
    shown = one.stats(f"stats-job {number}")
    assert (shown["tube"], shown["state"], shown["reserves"]) == ("mail", "reserved", "1")
    assert one(f"peek {number}")[2] == b"a" and one(f"delete {number}") == ["DELETED"]
    assert one.stats(f"stats-job {number}")["tube"] == "accounts"


def test_one_packet_may_have_many_commands(connect):
    one = connect()
    one.send(b"".join(b"put %d 0 60 2\r\nab\r\n" % i for i in range(3000)))
    assert [one.answer()[1] for _ in range(3000)] == [str(n) for n in range(1, 3001)]
    one.send("reserve\r\n" * 3000)
    assert [one.answer()[1] for _ in range(3000)] == [str(n) for n in range(1, 3001)]
    one.send("".join(f"delete {n}\r\n" for n in range(1, 3001)))
    assert all(one.answer() == ["DELETED"] for _ in range(3000))


def in_one_packet(address):
    """Answers to commands that arrive together and affect each other."""
    with Connection(address) as one:
        one.send("use q\r\nwatch q\r\n" + "put 5 0 60 1\r\na\r\n" * 20)
        answers = [one.answer() for _ in range(22)]
        for lines in (["reserve"] + ["reserve-with-timeout 0"] * 22, [f"delete {n}" for n in (1, 2, 2, 99, 3)] + ["touch 4", "delete 4", "delete 4", "bury 5 1", "delete 5", "delete 6"],
                      ["put 1 0 1 1\r\nb", "reserve-with-timeout 0", "reserve-with-timeout 0", "reserve-with-timeout 9"]):
            one.send("".join(f"{line}\r\n" for line in lines))
            answers += [one.answer() for _ in lines]
        return answers


@pytest.mark.skipif(not Path(PROGRAM).exists(), reason="no beanstalkd to compare with")
@pytest.mark.parametrize("server", ["embedded", "redis"], indirect=True)
def test_commands_in_one_packet_are_answered_as_by_beanstalkd(server):
    with Beanstalkd() as original:
        ours, theirs = in_one_packet(address(server)), in_one_packet(original.address)
    assert ours == theirs, [pair for pair in zip(ours, theirs) if pair[0] != pair[1]]
    assert ["DEADLINE_SOON"] in ours and ours.count(["DELETED"]) == 6


@STORES
def test_every_client_gets_another_job(connect):
    one, seen, lock = connect(), [], threading.Lock()
    for i in range(400):
        one.put(str(i))

    def work(connection):
        while (words := connection("reserve-with-timeout 0"))[0] == "RESERVED":
            with lock:
                seen.append(words[1])
            assert connection(f"delete {words[1]}") == ["DELETED"]

    workers = [threading.Thread(target=work, args=(connect(),)) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert sorted(seen, key=int) == [str(n) for n in range(1, 401)]


def test_several_servers_on_one_redis_are_one(start_server):
    with RedisServer() as redis:
        servers = [start_server("--beanstalk", "127.0.0.1:0", "--store", redis.url) for _ in range(2)]
        with Connection(address(servers[0])) as one, Connection(address(servers[1])) as two:
            numbers = [each.put("x", priority) for priority, each in enumerate([one, two, one, two])]
            assert len(set(numbers)) == 4
            assert [two("reserve-with-timeout 20")[1] for _ in numbers] == [str(number) for number in numbers], "by priority, whoever took them in"
            assert one(f"delete {numbers[0]}") == ["NOT_FOUND"], "a connection of the other server has it"
            assert two(f"delete {numbers[0]}") == ["DELETED"] and two(f"bury {numbers[1]} 0") == ["BURIED"] and two(f"release {numbers[2]} 70000 0") == ["RELEASED"]
            assert one(f"kick-job {numbers[1]}") == ["KICKED"] and one.stats(f"stats-job {numbers[2]}")["pri"] == "70000"
            assert one("reserve-with-timeout 20")[1] == str(numbers[1]) and one("reserve-with-timeout 20")[1] == str(numbers[2])
            one.send("reserve\r\n")
            late = two.put("late")
            assert one.answer() == ["RESERVED", str(late), b"late"], "a client that waits here gets what is pushed there"
            two.close()
            assert one("reserve-with-timeout 20")[1] == str(numbers[3]), "given back there"
            for server in servers[1:]:
                assert server.terminate() == 0
            assert one(f"delete {late}") == ["DELETED"]
        assert servers[0].terminate() == 0


def test_a_stop_ends_connections_and_gives_back(start_server, tmp_path):
    server = start_server("--beanstalk", f"unix:{tmp_path}/b", directory=tmp_path / "d")
    with Connection(f"{tmp_path}/b") as one, Connection(f"{tmp_path}/b") as two:
        one.put("x")
        assert one("reserve")[0] == "RESERVED"
        two.send("reserve\r\n")
        assert server.terminate() == 0
        assert two.answer() is None
    assert not Path(f"{tmp_path}/b").exists()


def test_other_machines_reach_it_only_if_configured(start_server):
    server = start_server("--beanstalk", "0.0.0.0:0", started=False).launch()
    assert server.proc.wait(30) and "--insecure" in server.log()
    server.proc = None
    server = start_server("--beanstalk", "127.0.0.1:0,tls", started=False).launch()
    assert server.proc.wait(30) and "no TLS" in server.log()
    server.proc = None


# ---- beside beanstalkd ----

# Of kicks those of buried jobs alone are known here.
JOB_KEYS = ("id", "tube", "state", "pri", "ttr", "delay", "reserves", "releases", "buries", "timeouts")
TUBE_KEYS = ("name", "current-jobs-ready", "current-jobs-reserved", "current-jobs-delayed", "current-jobs-buried", "current-using",
             "current-watching", "pause")


class Pair:
    """Two servers that are asked the same."""

    def __init__(self, ours, theirs):
        self.connections = [(Connection(ours), Connection(theirs)) for _ in range(3)]
        self.numbers, self.output = ({}, {}), []

    def ask(self, at, line, body=None):
        answers = [connection(line, body) for connection in self.connections[at]]
        verb = line.split(" ")[0]
        keys = {"stats-job": JOB_KEYS, "stats-tube": TUBE_KEYS}.get(verb)
        if keys:
            answers = [answer if answer[0] != "OK" else {key: value for key, value in self.parsed(answer).items() if key in keys} for answer in answers]
        if verb == "stats-tube":  # its length is known while a client uses it
            answers = [{**answer, "pause": answer["pause"] != "0"} if isinstance(answer, dict) else answer for answer in answers]
        if verb in ("list-tubes", "list-tubes-watched"):
            answers = [sorted(answer[1].decode().replace('"', "").split("\n")) for answer in answers]
        self.output.append((at, line, answers[0]))
        assert answers[0] == answers[1], "\n".join(map(str, [*self.output[-40:], f"theirs: {answers[1]}"]))
        return answers[0]

    @staticmethod
    def parsed(answer):
        return {name: value.strip('"') for name, value in (line.split(": ", 1) for line in answer[1].decode().splitlines()[1:])}


@SQL_TOO
@pytest.mark.skipif(not Path(PROGRAM).exists(), reason="no beanstalkd on this machine")
def test_the_same_is_answered_as_by_beanstalkd(server, request):
    """No two jobs have the same priority or due: what is equal goes by number there, by due here. The order of buried ones is
    beanstalkd's only on one embedded shard."""
    in_order = request.node.callspec.params["server"] == "embedded"
    rng, count = random.Random(SEED), 0
    priorities, delays = list(range(4000)), list(range(100, 100_000))
    rng.shuffle(priorities)
    rng.shuffle(delays)
    tubes = ["default", "a", "b.c", "d(e);f+g/h"]
    with Beanstalkd() as theirs:
        pair = Pair(address(server), theirs.address)

        def number():
            return rng.randint(max(1, count - 30), count + 1)

        def priority():
            return priorities.pop()

        def delay():
            return delays.pop() if rng.random() < 0.3 else 0

        def put(at):
            nonlocal count
            count += 1
            return pair.ask(at, f"put {priority()} {delay()} {rng.randint(500, 5000)}", bytes(rng.randbytes(rng.randint(0, 30))))

        choices = [
            (6, put),
            (6, lambda at: pair.ask(at, "reserve-with-timeout 0")),
            (2, lambda at: pair.ask(at, f"release {number()} {priority()} {delay()}")),
            (2, lambda at: pair.ask(at, f"bury {number()} {priority()}")),
            (3, lambda at: pair.ask(at, f"delete {number()}")),
            (1, lambda at: pair.ask(at, f"touch {number()}")),
            (1, lambda at: pair.ask(at, f"kick {rng.randint(1, 3) if in_order else 900}")),
            (1, lambda at: pair.ask(at, f"kick-job {number()}")),
            (1, lambda at: pair.ask(at, f"peek {number()}")),
            (1, lambda at: pair.ask(at, rng.choice(["peek-ready", "peek-delayed", *(["peek-buried"] if in_order else [])]))),
            (2, lambda at: pair.ask(at, f"stats-job {number()}")),
            (1, lambda at: pair.ask(at, f"stats-tube {rng.choice(tubes)}")),
            (1, lambda at: pair.ask(at, f"use {rng.choice(tubes)}")),
            (1, lambda at: pair.ask(at, f"watch {rng.choice(tubes)}")),
            (1, lambda at: pair.ask(at, f"ignore {rng.choice(tubes)}")),
            (1, lambda at: pair.ask(at, rng.choice(["list-tubes", "list-tube-used", "list-tubes-watched"]))),
            (1, lambda at: pair.ask(at, f"reserve-job {number()}")),
            (1, lambda at: pair.ask(at, f"pause-tube {rng.choice(tubes)} {rng.choice([0, 0, 1000])}")),
            (1, lambda at: pair.ask(at, rng.choice(["", "x", "peek", "put", "use ", "kick x", "peek -1", "watch -", "stats-tube"]))),
        ]
        weights, calls = zip(*choices)
        for _ in range(3000):
            rng.choices(calls, weights)[0](rng.randrange(3))
        assert count > 300
