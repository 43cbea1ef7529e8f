"""Data of a topic for other rooms: its extension, the bytes of its dead jobs, and the notifications about both."""

import pytest
from abi import (ACK, CANCEL, CREATED, DEAD, NACK, OK, REFUSE, RUN, TOPIC_GET, TOPIC_PAUSE, TOPIC_PUT, TOPIC_RESUME, job, settings)

TEXT = b'{"deliver":{"to":"https://shop.example/close"}}'


@pytest.fixture
def notifications(shard):
    """Returns the notifications since the last call."""
    listener = shard.client.pubsub()
    listener.execute_command("SSUBSCRIBE", shard.tag + ":notifications")
    listener.parse_response()

    def reported(kinds=b"sx"):
        out = []
        while (message := listener.parse_response(block=False, timeout=0.05)) is not None:
            if message[2][9:10] in [kinds[at:at + 1] for at in range(len(kinds))]:
                out.append(message[2][9:])
        return out

    yield reported
    listener.close()


# ---- the extension ----

def test_it_is_kept_with_the_settings_and_goes_with_them(shard):
    assert shard.topic(TOPIC_PUT, "t", settings(lease=5), 1, extension=TEXT)[1].extension == TEXT
    shard.push("t", job("a"))
    shard.topic(TOPIC_PAUSE, "t")
    for topic in (shard.topic(TOPIC_GET, "t")[1], shard.topics()[1][b"t"]):
        assert (topic.extension, topic.settings) == (TEXT, settings(lease=5))
    assert shard.topic(TOPIC_PUT, "t", settings(ttl=7))[1].extension == b""
    assert shard.client.exists(f"{shard.tag}:extension:t") == 0


def test_it_may_be_as_long_as_its_limit(shard):
    shard.topic(TOPIC_PUT, "t", settings(), 1, extension=b"{" * 4096)
    assert shard.stats("t").extension == b"{" * 4096
    shard.push("t", job("a"))
    assert shard.take("t")[0].id == b"a"


# ---- what the dead take ----

def size_of(shard, *idents):
    return sum(shard.client.hstrlen(f"{shard.tag}:job:t", ident) + len(ident) for ident in idents)


@pytest.mark.parametrize("way", ["nacked", "refused", "lease ended", "expired", "imported"])
def test_dead_jobs_are_counted_with_their_size(shard, way):
    shard.topic(TOPIC_PUT, "t", settings(attempts=1, dead_letter_expired=True), 1)
    shard.push("t", job("a", b"x" * 1000, own={"ttl": 1000} if way == "expired" else None, past=(1, 1, b"") if way == "imported" else None))
    if way in ("nacked", "refused"):
        shard.answer((NACK if way == "nacked" else REFUSE, shard.take("t")[0].delivery))
    elif way == "lease ended":
        shard.take("t", lease=1000)
    if way in ("lease ended", "expired"):
        shard.jump(1002)
        shard.advance()
    topic = shard.stats("t")
    assert topic.dead == 1 and topic.dead_bytes == size_of(shard, "a") > 1000


@pytest.mark.parametrize("way", ["cancelled", "redriven", "all redriven", "replaced", "purged", "deleted"])
def test_jobs_that_are_no_longer_dead_are_not_counted(shard, way):
    shard.push("t", job("a", b"x" * 1000, past=(1, 1, b"")), job("b", b"y" * 500, past=(1, 1, b"")))
    assert shard.stats("t").dead_bytes == size_of(shard, "a", "b")
    if way == "cancelled":
        shard.change("t", (CANCEL, "a"))
    elif way in ("redriven", "all redriven"):
        shard.redrive("t", "a" if way == "redriven" else b"")
    elif way == "replaced":
        shard.push("t", job("a", b"z"))
    elif way == "purged":
        shard.purge("t", DEAD, most=1)
    else:
        shard.purge_all("t", verb="delete")
        assert shard.topics()[1] == {}
        return
    assert shard.stats("t").dead_bytes == (0 if way == "all redriven" else size_of(shard, "b"))


# ---- notifications ----

def test_changed_settings_are_published_with_server_and_number(shard, notifications):
    shard.topic(TOPIC_PUT, "t", settings(), 1)
    shard.topic(TOPIC_PUT, "u", settings(), 1, extension=TEXT)
    server = shard.server.encode()
    assert notifications() == [b"s" + server + b"1 t", b"s" + server + b"2 u"]
    shard.push("t", *[job(f"j{n}") for n in range(5)])
    assert shard.purge("t", verb="delete", most=2)[1] == 1
    assert notifications() == [], "it is not gone yet"
    shard.purge_all("t", verb="delete", most=2)
    assert notifications() == [b"s" + server + b"3 t"]
    for verb in (TOPIC_GET, TOPIC_PAUSE, TOPIC_RESUME):
        shard.topic(verb, "u")
    shard.purge_all("u")
    shard.redrive("u")
    assert notifications() == [] and shard.counters() == (3, 0)


def test_a_repeated_ticket_publishes_nothing(shard, notifications):
    ticket = shard.ticket()
    for _ in range(2):
        shard.topic(TOPIC_PUT, "t", settings(), 1, ticket=ticket)
    assert len(notifications()) == 1 and shard.counters() == (1, 0)


def test_deaths_are_published_once_per_call(shard, notifications):
    shard.topic(TOPIC_PUT, "t", settings(attempts=1, dead_letter_expired=True), 1, extension=TEXT)
    shard.push("t", *[job(f"n{n}") for n in range(3)])
    leases = shard.take("t")
    shard.push("t", job("late", own={"ttl": 500}), job("cancelled", delay=60_000))
    assert notifications(b"x") == []
    shard.answer((NACK, leases[0].delivery), (REFUSE, leases[1].delivery), (ACK, leases[2].delivery))
    assert notifications(b"x") == [b"x1 t"]
    shard.jump(502)
    shard.advance()
    assert notifications(b"x") == [b"x2 t"]
    shard.push("t", job("p", past=(1, 1, b"")))
    shard.push("t", job("p", past=(1, 1, b"")))
    assert notifications(b"x") == [b"x3 t", b"x4 t"], "also in another's place"
    shard.change("t", (CANCEL, "cancelled"), (RUN, "p"))
    shard.redrive("t", "p")
    shard.purge_all("t")
    assert notifications(b"x") == [] and shard.counters() == (1, 4)


def test_a_take_publishes_expiries_that_it_finds(shard, notifications):
    shard.topic(TOPIC_PUT, "t", settings(dead_letter_expired=True), 1, extension=TEXT)
    shard.push("t", job("late", own={"ttl": 500}))
    shard.jump(502)
    assert shard.take("t") == [] and notifications(b"x") == [b"x1 t"]


def test_deaths_in_topics_without_rules_are_not_published(shard, notifications):
    for name, extension in (("t", b""), ("u", TEXT)):
        assert shard.topic(TOPIC_PUT, name, settings(attempts=1), 1, extension=extension)[0] == CREATED
        shard.push(name, job("a"), job("b"))
    shard.topic(TOPIC_PUT, "u", settings(attempts=1))
    for name in ("t", "u"):
        shard.answer(*[(NACK, lease.delivery) for lease in shard.take(name)])
    assert notifications(b"x") == [] and shard.counters()[1] == 0


def test_without_publish_rights_only_numbers_change(shard):
    shard.client.execute_command("ACL", "SETUSER", "mute", "on", "nopass", "~*", "&*", "+@all", "-spublish", "-publish")
    try:
        shard.client.execute_command("AUTH", "mute", "any")
        shard.topic(TOPIC_PUT, "t", settings(attempts=1), 1, extension=TEXT)
        shard.push("t", job("a"))
        assert shard.answer((NACK, shard.take("t")[0].delivery))[0][:2] == (OK, DEAD)
        assert shard.counters() == (1, 1)
    finally:
        shard.client.execute_command("AUTH", "default", "")
        shard.client.execute_command("ACL", "DELUSER", "mute")
