"""Order of servers: several servers on one Redis, consumers at some of them, jobs that become due one by one."""

import signal
import threading
import time

import pytest
from redis_servers import RedisServer
from server import eventually, freeze, slack

JOBS = 24
GAP_MS = 60


@pytest.fixture
def redis():
    with RedisServer() as server:
        yield server


@pytest.fixture
def servers(redis, start_server):
    return [start_server("--store", redis.url) for _ in range(3)]


class Consumer(threading.Thread):
    """Takes one job at a time and acks it. `came`: {id: when, in ms}"""

    def __init__(self, server, topic, came, wait="20s"):
        super().__init__(daemon=True)
        self.client, self.topic, self.came, self.wait, self.done = server.client(60), topic, came, wait, False
        self.start()

    def run(self):
        while not self.done:
            try:
                for job in self.client.take(self.topic, max=1, wait=self.wait):
                    self.came[job["id"]] = time.time() * 1000
                    self.client.ack(job["lease"])
            except Exception:  # its server was killed
                return


def calls(redis):
    return redis.client().info("commandstats")["cmdstat_fcall"]["calls"]


def push_all(client, plan):
    """plan: (topic, ms from the start). {id: due}"""
    start, dues = int(time.time() * 1000) + 600, {}
    for number, (topic, offset) in enumerate(plan):
        dues[f"{topic}{number}"] = start + offset
        client.push(topic, f"{topic}{number}", at=start + offset)
    return dues


def lateness(redis, server, plan, consumers, came):
    """Returns the lateness of each job, sorted; and the number of calls of Redis."""
    time.sleep(0.3)  # they wait
    dues = push_all(server.client(), plan)
    before = calls(redis)
    eventually(lambda: len(came) == len(dues), 30)
    for consumer in consumers:
        consumer.done = True
    late = {ident: at - dues[ident] for ident, at in came.items()}
    print("ms late:", sorted(round(ms, 1) for ms in late.values()), "calls", calls(redis) - before)
    assert min(late.values()) >= 0
    return late, calls(redis) - before


def best(late, part=3):
    """Returns the latest of the best third: the machine may be slow now and then, but not always."""
    late = sorted(late)
    return late[len(late) // part]


ONE_BY_ONE = [("t", GAP_MS * number) for number in range(JOBS)]


def test_three_servers_with_consumers_share_one_topic_without_a_stampede(redis, servers):
    came = {}
    consumers = [Consumer(server, "t", came) for server in servers]
    late, used = lateness(redis, servers[0], ONE_BY_ONE, consumers, came)
    assert best(late.values()) < 3 * slack()
    assert used < 14 * JOBS, "the take, the ack, the next take and its look; the others once each, and looks"


def test_jobs_are_on_time_if_topics_have_consumers_at_different_servers(redis, servers):
    """The server that knows the next job has no waiting take for it."""
    came = {}
    consumers = [Consumer(servers[0], "x", came), Consumer(servers[1], "y", came)]
    late, _ = lateness(redis, servers[2], [(topic, GAP_MS * number + after) for number in range(JOBS) for topic, after in (("x", 0), ("y", 3))], consumers, came)
    assert best(ms for ident, ms in late.items() if ident[0] == "x") < 8 * slack()
    assert best(ms for ident, ms in late.items() if ident[0] == "y") < 8 * slack()


def test_a_server_with_idle_takes_does_not_delay_others(redis, servers):
    came = {}
    consumers = [Consumer(servers[0], "other", {}, wait="5ms"), Consumer(servers[1], "t", came)]
    late, _ = lateness(redis, servers[2], ONE_BY_ONE, consumers, came)
    assert best(late.values()) < 3 * slack()


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_jobs_come_on_time_when_the_server_that_came_for_them_is_gone(redis, servers, how):
    """Its consumers waited in vain just before: for a while the others count on it."""
    came = {}
    consumers = [Consumer(servers[1], "t", came)]
    push = servers[2].client()
    gone = Consumer(servers[0], "t", came)
    time.sleep(0.3)
    dues = push_all(push, ONE_BY_ONE)
    eventually(lambda: len(came) >= JOBS // 3, 20)
    if how == "killed":
        servers[0].kill()
    else:
        freeze(servers[0].proc.pid)
    try:
        eventually(lambda: len(came) >= JOBS - 1, 20)  # one may have been on its way to the consumer of the server that is gone
    finally:
        if how == "frozen":
            servers[0].proc.send_signal(signal.SIGCONT)
    gone.done = consumers[0].done = True
    late = [at - dues[ident] for ident, at in came.items()]
    print("ms late:", sorted(round(ms, 1) for ms in late))
    assert min(late) >= 0 and best(late) < 8


def test_a_paused_topic_with_consumers_costs_next_to_nothing(redis, servers):
    came = {}
    client = servers[0].client()
    client.put_topic("t")
    client.call("POST", "/v1/topics/t/pause")
    consumers = [Consumer(server, "t", came) for server in servers]
    time.sleep(0.3)
    push_all(client, ONE_BY_ONE)
    before = calls(redis)
    time.sleep(2.5)
    used = calls(redis) - before
    print("calls", used)
    assert not came and used < 8 * JOBS
    client.call("POST", "/v1/topics/t/resume")
    eventually(lambda: len(came) == JOBS, 20)
    for consumer in consumers:
        consumer.done = True


def test_servers_with_idle_takes_check_once_a_second(redis, servers):
    consumers = [Consumer(server, "t", {}) for server in servers]
    servers[0].client().push("t", "far", delay="1h")
    time.sleep(1)
    before = calls(redis)
    time.sleep(3)
    used = calls(redis) - before
    print("calls", used)
    assert used <= 18
    for consumer in consumers:
        consumer.done = True


def test_one_call_does_not_bring_more_large_jobs_than_redis_can_bear(redis, start_server):
    """The server does nothing else meanwhile. 24 consumers request 12 MiB each at the same time."""
    server = start_server("--store", redis.url)
    client, came = server.client(60), []
    for number in range(12):
        for topic in range(24):
            client.push(f"t{topic}", body=b"x" * (1 << 20))
    came += client.take("t0", max=1)
    redis.config("slowlog-log-slower-than", "0")
    redis.config("slowlog-max-len", "10000")
    consumers = [threading.Thread(target=lambda topic=topic: came.extend(server.client(60).take(f"t{topic}", max=12))) for topic in range(24)]
    for consumer in consumers:
        consumer.start()
    for consumer in consumers:
        consumer.join()
    assert len(came) == 24 * 12
    calls = [words for _, _, _, words, *_ in redis.call("SLOWLOG", "GET", "10000") if words[0] == b"FCALL" and words[1].endswith(b"_step")]
    takes = [int.from_bytes(words[5][-2:], "big") for words in calls]
    print("takes of a call:", takes)
    assert sum(takes) >= 24 and max(takes) <= 2


def test_a_take_that_waited_behind_a_later_push_ends(redis, servers):
    """Redis stands still. Then it carries out what the first server sent, and after that an older take of the second one: the ready job
    is due later than the time by which that take goes."""
    first, second = (server.client(60) for server in servers[:2])
    first.push("t", "late", delay="10m", group="a")
    second.take("t")
    taken = []
    calls = [threading.Thread(target=call, daemon=True) for call in (
        lambda: servers[0].client().get("t", "late"),
        lambda: taken.extend(second.take("t")),
        lambda: first.push("t", "now", group="a"),
    )]
    freeze(redis.proc.pid)
    try:
        for call, pause in zip(calls, (0.2, 0.8, 0.2), strict=True):
            call.start()
            time.sleep(pause)
    finally:
        redis.proc.send_signal(signal.SIGCONT)
    for call in calls:
        call.join()
    assert redis.call("PING")
    taken = taken or servers[2].client().take("t", wait="20s")
    assert [job["id"] for job in taken] == ["now"]
