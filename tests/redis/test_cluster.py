"""On a real cluster: a script is refused while its slot moves, before it changed anything; and is right again after the move."""

import pytest
import redis
from abi import ACK, OK, Shard, job
from redis_servers import wait_for


def shard_on(cluster, tag):
    return Shard(cluster.owner(cluster.slot_of(tag)).client(), tag)


def calls(shard, lease):
    """Lists each script once: (name, call)"""
    return [("hello", shard.hello), ("push", lambda: shard.push("t", job("new"))), ("take", lambda: shard.take("t")),
            ("answer", lambda: shard.answer((ACK, lease.delivery))), ("change", lambda: shard.change("t", (3, "later"))), ("advance", shard.advance),
            ("get", lambda: shard.get("t", "later")), ("list", lambda: shard.list("t")), ("topic", lambda: shard.topic(4, "t")),
            ("topics", shard.topics), ("purge", lambda: shard.purge("t")), ("redrive", lambda: shard.redrive("t")), ("look", lambda: shard.look("t")),
            ("forecast", lambda: shard.forecast("t", [5])),
            ("adjust", lambda: shard.change_call("adjust", 0, 5000))]


def content(shards):
    """Reads all nodes, regardless of the owner of the slot."""
    out = []
    for shard in shards:
        for key in sorted(shard.client.scan_iter(shard.tag + ":*", count=1000)):
            out.append((key, _AskingClient(shard.client).execute_command("DUMP", key)))
    return out


@pytest.mark.parametrize("moved", [0, 1, 5, 1000])
def test_while_a_slot_moves_every_script_is_refused_and_changes_nothing(cluster, moved):
    tag = f"{{tarry:{moved}}}"
    shard = shard_on(cluster, tag)
    shard.hello()
    shard.push("t", job("leased"))
    [lease] = shard.take("t")
    shard.push("t", job("ready", own={"ttl": 60_000}), job("later", delay=60_000), job("dead", past=(1, 1, b"")))
    slot = cluster.slot_of(tag)
    source, to = cluster.begin_move(slot)
    other = Shard(to.client(), tag, "000000b0")
    cluster.move_keys(slot, source, to, moved)
    before = content((shard, other))
    for name, call in calls(shard, lease):
        with pytest.raises(redis.exceptions.ResponseError) as refused:
            call()
        assert any(word in str(refused.value) for word in ("ASK", "TRYAGAIN", "slot", "non local key")), (name, refused.value)
    for name, call in calls(Asking(other), lease):
        with pytest.raises(redis.exceptions.ResponseError) as refused:
            call()
        assert any(word in str(refused.value) for word in ("TRYAGAIN", "slot", "non local key")), (name, refused.value)
    assert content((shard, other)) == before
    cluster.move_keys(slot, source, to)
    cluster.end_move(slot, to)
    wait_for(lambda: cluster.owner(slot) is to, "the slot has moved")
    other.must_be_sound()
    assert {name: topic.leased for name, topic in other.topics()[1].items()} == {b"t": 1}
    for name, call in calls(other, lease):
        call()
    assert other.answer((ACK, lease.delivery))[0][0] != OK, "it was acked by the calls"


class Asking(Shard):
    """Sends ASKING before each call, as after an ASK redirection."""

    def __init__(self, shard):
        super().__init__(_AskingClient(shard.client), shard.tag, "000000a5")


class _AskingClient:
    def __init__(self, client):
        self.client = client
        self.script_load = client.script_load

    def execute_command(self, *words):
        pipe = self.client.pipeline(transaction=False)
        pipe.execute_command("ASKING")
        pipe.execute_command(*words)
        replies = pipe.execute(raise_on_error=False)
        if isinstance(replies[1], Exception):
            raise replies[1]
        return replies[1]


def test_a_slot_move_under_traffic_loses_nothing(cluster):
    """A call that was refused is made again with its ticket until it is carried out: exactly once."""
    tag = "{tarry:moving}"
    slot = cluster.slot_of(tag)
    shard = shard_on(cluster, tag)
    shard.check = False
    shard.hello()
    owners, refusals, pushed, acked = [cluster.owner(slot)], 0, 0, set()

    def persist(call):
        nonlocal refusals
        ticket = shard.ticket()
        while True:
            try:
                return call(ticket)
            except redis.exceptions.ResponseError:
                refusals += 1
                step_of_move()
                shard.client = cluster.owner(slot).client()

    move = iter(())

    def step_of_move():
        nonlocal move
        if next(move, None) is None:
            move = reshard()

    def reshard():
        source, to = cluster.begin_move(slot)
        yield 1
        while cluster.move_keys(slot, source, to, 2):
            yield 1
        cluster.end_move(slot, to)
        owners.append(to)

    for step in range(120):
        if step % 10 == 5:
            step_of_move()
        jobs = [job(f"j{step}-{n}", delay=n % 3 * 5 or None) for n in range(5)]
        assert {status for status, *_ in persist(lambda ticket: shard.push("t", *jobs, ticket=ticket))} == {1}
        pushed += 5
        for found in persist(lambda ticket: shard.take("t", 3, ticket=ticket)):
            persist(lambda ticket: shard.answer((ACK, found.delivery), ticket=ticket))
            assert found.id not in acked
            acked.add(found.id)
    for _ in move:
        pass
    shard.client = cluster.owner(slot).client()
    shard.must_be_sound()
    topic = shard.stats("t")
    assert len(owners) > 2 and refusals > 20
    assert (topic.pushed, topic.acked) == (pushed, len(acked))
