"""The holder of a lease, and the request to cancel: in step.lua and change.lua."""

import pytest
from abi import ACK, CANCEL, CANCELLED, EXTEND, LEASE_ENDED, NACK, NOT_FOUND, OK, REFUSE, RETURN, job
from test_check import Check, hash_of, must_be_mended, only, set_hash

CANCEL_OR_REQUEST, REQUESTED, LEASED = 5, 24, 3
NAME = b"worker 1 of host.example"


def leased(shard, ident="a", **more):
    shard.push("t", job(ident))
    return shard.take("t", consumer=NAME, **more)[0]


def holder(shard, ident="a"):
    found = shard.get("t", ident)
    return found.consumer, found.requested


def request(shard, ident="a"):
    return shard.change("t", (CANCEL_OR_REQUEST, ident))[0][:2]


def test_a_take_without_a_name_writes_no_room_for_one(shard):
    shard.push("t", job("a"))
    shard.take("t")
    assert len(hash_of(shard, "a", "try")) == 37
    assert holder(shard) == (b"", False)


def test_a_name_is_shown_by_take_get_and_list_and_stays_over_an_extend(shard):
    found = leased(shard)
    assert found.consumer == NAME
    assert holder(shard) == (NAME, False)
    assert shard.answer((EXTEND, found.delivery, 5000))[0][:2] == (OK, LEASED)
    assert holder(shard) == (NAME, False)
    assert [one.consumer for one in shard.list("t")[2]] == [NAME]


@pytest.mark.parametrize("count", [1, 3, 40])
def test_takes_of_many_and_of_several_names_keep_them_apart(shard, count):
    shard.push("t", *[job(f"{i:03}") for i in range(2 * count)])
    step = shard.step(takes=[("t", count, 1 << 24, 0, b"one"), ("t", count, 1 << 24, 0, b"two")])
    assert [[one.consumer for one in jobs] for jobs in step.jobs] == [[b"one"] * count, [b"two"] * count]
    assert holder(shard, "000") == (b"one", False) and holder(shard, f"{2 * count - 1:03}") == (b"two", False)


def test_error_and_history_follow_the_name(shard):
    first = leased(shard)
    shard.answer((NACK, first.delivery, 0, b"boom"))
    again = shard.take("t", consumer=b"second")[0]
    assert (again.consumer, again.error, len(again.history)) == (b"second", b"boom", 1)
    found = shard.get("t", "a")
    assert (found.consumer, found.error, len(found.history)) == (b"second", b"boom", 1)
    shard.answer((NACK, again.delivery, 60_000, b"bang"))
    found = shard.get("t", "a")
    assert (found.consumer, found.error, len(found.history)) == (b"", b"bang", 2)


@pytest.mark.parametrize("name", [NAME, None])
def test_a_cancel_request_is_recorded_once_and_returned_by_every_extend(shard, name):
    shard.push("t", job("a"))
    delivery = shard.take("t", consumer=name)[0].delivery
    assert shard.answer((EXTEND, delivery, 5000))[0][1] == LEASED
    assert [request(shard), request(shard)] == [(REQUESTED, LEASED)] * 2
    assert holder(shard) == (name or b"", True)
    assert [shard.answer((EXTEND, delivery, 5000))[0][:2] for _ in range(2)] == [(OK, LEASED + 128)] * 2
    assert shard.answer((ACK, delivery))[0][0] == OK
    assert shard.stats("t").acked == 1 and shard.stats("t").cancelled == 0


@pytest.mark.parametrize("verb", [NACK, REFUSE, RETURN])
@pytest.mark.parametrize("beside", [0, 2])
def test_any_answer_except_an_ack_cancels_a_job_with_a_request(shard, verb, beside):
    if beside:
        shard.push("t", *[job(f"other{i}") for i in range(beside)])
    others = [(ACK, one.delivery) for one in shard.take("t")]
    found = leased(shard)
    request(shard)
    output = shard.answer(*others, (verb, found.delivery, 0, b"no"))
    assert output[-1][0] == CANCELLED
    topic = shard.stats("t")
    assert (topic.cancelled, topic.nacked, topic.died, topic.leased, topic.ready) == (1, 0, 0, 0, 0)
    assert shard.get("t", "a") is None and shard.answer((ACK, found.delivery))[0][0] == LEASE_ENDED


def test_the_end_of_the_lease_cancels_it(shard):
    leased(shard, lease=1000)
    request(shard)
    shard.jump(1500)
    shard.advance()
    topic = shard.stats("t")
    assert (topic.cancelled, topic.lease_ended, topic.leased) == (1, 0, 0)
    assert shard.get("t", "a") is None and request(shard)[0] == NOT_FOUND


def test_a_request_cancels_unleased_jobs_immediately(shard):
    shard.push("t", job("ready"), job("delayed", delay=60_000))
    assert [request(shard, ident)[0] for ident in ("ready", "delayed", "ready")] == [CANCELLED, CANCELLED, NOT_FOUND]
    leased(shard)
    assert shard.change("t", (CANCEL, "a"))[0][0] == 7 and holder(shard) == (NAME, False)


def test_a_call_sent_again_answers_the_same(shard):
    found = leased(shard)
    ticket = shard.ticket()
    assert shard.change("t", (CANCEL_OR_REQUEST, "a"), ticket=ticket) == shard.change("t", (CANCEL_OR_REQUEST, "a"), ticket=ticket)
    ticket = shard.ticket()
    assert shard.answer((EXTEND, found.delivery, 5000), ticket=ticket) == shard.answer((EXTEND, found.delivery, 5000), ticket=ticket)


@pytest.mark.parametrize("spoiled", [lambda of: of[:37], lambda of: of[:38] + b"\xff" + of[39:]])
def test_a_truncated_name_makes_the_try_unreadable(shard, spoiled):
    leased(shard)
    assert not Check(shard).findings
    set_hash(shard, "a", spoiled(hash_of(shard, "a", "try")), "try")
    assert only(must_be_mended(shard), "a", "has an unreadable try")
