"""Jobs that wait for the members of a batch (batches.lua). The claims of the contract suite state the rules; these tests look at what is stored."""

from abi import ACK, CANCEL, CREATED, DELAYED, OK, REFUSE, STOP, batch, job

CLOSE = 7
WITH_MEMBERS = 1
CANCELLED = 4


def begin(shard, members, **options):
    assert shard.push("t", job("w", b"report", batch=batch(waits=True, **options)))[0][:2] == (CREATED, DELAYED)
    shard.push("m", *[job(f"j{number}", batch=batch(of=("t", "w"))) for number in range(members)])


def close(shard):
    assert shard.change("t", (CLOSE, "w"))[0][0] == OK


def open_batches(shard):
    return shard.client.hlen(shard.tag + ":batches")


def test_the_state_of_a_batch_lasts_until_the_end_of_the_wait(shard):
    begin(shard, 3)
    close(shard)
    for found in shard.take("m"):
        shard.must_be_sound()
        assert open_batches(shard) == 1
        shard.answer((ACK, found.delivery))
    assert open_batches(shard) == 0
    [done] = shard.take("t")
    assert done.body == b"report" and done.meta == b"tarry-batch\0acked=3 dead=0 cancelled=0 expired=0 missing=0\0"
    assert shard.client.keys(shard.tag + ":members:*") == []


def test_acks_of_one_call_end_the_wait_once(shard):
    begin(shard, 100)
    close(shard)
    shard.answer(*[(ACK, found.delivery) for found in shard.take("m")])
    assert [found.id for found in shard.take("t")] == [b"w"]
    assert shard.take("t") == []


def test_a_stop_cancels_many_members_in_several_calls(shard):
    begin(shard, 2500, on_dead=STOP)
    close(shard)
    [first] = shard.take("m", 1)
    shard.answer((REFUSE, first.delivery))
    left = shard.client.hlen(shard.tag + ":job:m")
    assert 1000 < left <= 1600  # a call cancels 1,000
    shard.must_be_sound()
    for _ in range(3):
        shard.jump(10)
        shard.advance_all()
    assert shard.client.hlen(shard.tag + ":job:m") == 1  # the dead one
    [done] = shard.take("t")
    assert done.meta == b"tarry-batch\0acked=0 dead=1 cancelled=2499 expired=0 missing=0\0"


def test_a_cancel_with_its_members_removes_all(shard):
    begin(shard, 2500)
    assert shard.change("t", (CANCEL, "w", {"when": WITH_MEMBERS}))[0][0] == CANCELLED
    assert open_batches(shard) == 0 and shard.client.hlen(shard.tag + ":job:m") == 0


def test_a_purge_counts_the_members_as_cancelled(shard):
    begin(shard, 40)
    close(shard)
    assert shard.purge("m", state=0)[0] == OK
    [done] = shard.take("t")
    assert done.meta == b"tarry-batch\0acked=0 dead=0 cancelled=40 expired=0 missing=0\0"
