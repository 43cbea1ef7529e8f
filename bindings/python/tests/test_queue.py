"""Every call of the module, by the test clock: what comes out, when, and what is refused by which exception."""

import datetime
import threading
import weakref

import libtarry
import pytest

HOUR = 3600


@pytest.fixture
def queue():
    with libtarry.open(test_clock=True) as queue:
        yield queue


def pass_time(queue, seconds):
    """A delay of D ms ends when D + 1 have passed."""
    queue.advance(seconds + 0.001)


def test_a_job_comes_out_when_it_is_due_and_not_before(queue):
    pushed = queue.push("orders", {"order": 1001}, id="1001", delay=1800)
    assert (pushed.id, pushed.result) == ("1001", "created")
    queue.advance(1799.999)
    assert queue.take("orders", wait=0) == []
    queue.advance(0.002)
    (job,) = queue.take("orders", wait=0)
    assert (job.topic, job.id, job.json(), job.attempt, job.state) == ("orders", "1001", {"order": 1001}, 1, "leased")
    assert job.due_ms == pushed.due_ms
    job.ack()
    assert queue.get("orders", "1001") is None


@pytest.mark.parametrize(
    "body, given, found, kind",
    [
        (b"\0\xff", None, b"\0\xff", "application/octet-stream"),
        (bytearray(b"ab"), "image/png", b"ab", "image/png"),
        (memoryview(b"ab"), None, b"ab", "application/octet-stream"),
        ("ä", None, "ä".encode(), "text/plain; charset=utf-8"),
        ({"a": "ä"}, None, '{"a":"ä"}'.encode(), "application/json"),
        ("a", "application/json", b'"a"', "application/json"),
        (b"", None, b"", "application/octet-stream"),
    ],
)
def test_a_body_comes_back_to_the_byte_with_its_type(queue, body, given, found, kind):
    queue.push("t", body, content_type=given)
    queue.push("t", body, content_type=given, priority=101)  # by the struct of all fields
    for job in queue.pop("t", max=2):
        assert (job.body, job.content_type) == (found, kind)


def test_all_options_of_a_push_reach_the_job(queue):
    at = datetime.datetime.fromtimestamp(queue.now() + 60, datetime.timezone.utc)
    queue.push("t", b"", id="a", at=at, priority=7, ttl=datetime.timedelta(minutes=1), lease=5, max_attempts=2, backoff="fixed:10s", meta={"trace": "ü"})
    pass_time(queue, 60)
    (job,) = queue.take("t", wait=0)
    assert (job.priority, job.meta) == (7, {"trace": "ü"})
    assert abs((job.due_at - at).total_seconds()) <= 0.001
    assert abs(job.lease_until.timestamp() - queue.now() - 5) < 0.01
    job.nack(error="no ink")
    pass_time(queue, 7.9)  # ten, give or take a fifth
    assert queue.take("t", wait=0) == []
    pass_time(queue, 4.1)
    (job,) = queue.take("t", wait=0)
    assert (job.attempt, job.last_error) == (2, "no ink")
    (attempt,) = job.history
    assert (attempt.number, attempt.outcome, attempt.error) == (1, "failed", "no ink")
    job.nack()
    assert queue.get("t", "a").state == "dead"


def test_a_list_has_a_wait_for_each_retry(queue):
    queue.push_many([{"topic": "t", "id": "a", "backoff": "list:10s,1m"}, {"topic": "u", "id": "b"}])
    for least, more in ((7.9, 4.2), (47.9, 24.2), (47.9, 24.2)):
        (job,) = queue.take("t", wait=0)
        job.nack()
        pass_time(queue, least)  # give or take a fifth
        assert queue.take("t", wait=0) == []
        pass_time(queue, more)


def test_an_unknown_option_is_a_type_error(queue):
    with pytest.raises(TypeError, match="'delai'"):
        queue.push_many([{"topic": "t", "delai": 1}])
    with pytest.raises(TypeError, match="needs a topic"):
        queue.push_many([{}])
    with pytest.raises(ValueError, match="fixed:10s"):
        queue.push("t", backoff="slowly")
    with pytest.raises(ValueError, match="list:10s,1m,1h"):
        queue.push("t", backoff="list:1s,")
    with pytest.raises(ValueError, match="replace, keep, reject or after"):
        queue.push("t", on_conflict="maybe")


def test_once_prevents_a_second_push_after_the_ack(queue):
    first = queue.push("t", b"1", once="order-7")
    (job,) = queue.take("t", wait=0)
    job.ack()
    again = queue.push("t", b"2", once="order-7")
    assert (first.result, again.result) == ("created", "existed")
    assert [one.result for one in queue.push_many([{"topic": "t", "once": "order-7"}, {"topic": "t", "once": "order-8", "once_for": 1}])] == ["existed", "created"]
    with pytest.raises(libtarry.Refused):
        queue.push("t", once="two words")


def test_a_push_of_an_id_that_exists_goes_by_on_conflict(queue):
    assert queue.push("t", b"1", id="a", delay=1).result == "created"
    assert queue.push("t", b"2", id="a", delay=1).result == "replaced"
    assert queue.push("t", b"3", id="a", delay=1, on_conflict="keep").result == "existed"
    with pytest.raises(libtarry.Conflict) as refused:
        queue.push("t", b"4", id="a", on_conflict="reject")
    assert (refused.value.code, refused.value.state) == ("conflict", "delayed")
    assert queue.get("t", "a").body == b"2"


def test_what_is_refused_is_refused_by_name(queue):
    for topic in ("", ".hidden", "a b", "a\0b", "x" * 201):
        with pytest.raises(libtarry.Refused) as refused:
            queue.push(topic)
        assert refused.value.code == "bad_topic"
    for id in ("", "a b", "a\0b", "x" * 129):
        with pytest.raises(libtarry.Refused) as refused:
            queue.push("t", id=id)
        assert refused.value.code == "bad_id"
    with pytest.raises(libtarry.Refused) as refused:
        queue.push("t", delay=-1)
    assert (refused.value.code, refused.value.detail) == ("bad_option", "delay_ms")
    with pytest.raises(libtarry.Refused) as refused:
        queue.push("t", b"x" * (1024 * 1024 + 1))
    assert refused.value.code == "body_too_big"
    with pytest.raises(OverflowError):
        queue.push("t", delay=10**30)
    for call in (queue.cancel, queue.get, queue.run):
        with pytest.raises(ValueError, match="NUL"):
            call("t\0t", "a")
    with pytest.raises(TypeError):
        queue.take()
    with pytest.raises(ValueError, match="1 to 1000"):
        queue.take("t", max=0)
    assert list(queue.list("t")) == []


def test_batches_go_in_parts_and_an_item_that_is_refused_spoils_no_other(queue):
    items = [{"topic": "t", "id": str(number), "body": b"x"} for number in range(2500)]
    items[1700] = {"topic": ".t"}
    results = queue.push_many(items)
    assert [at for at, result in enumerate(results) if isinstance(result, libtarry.TarryError)] == [1700]
    assert len(results) == 2500 and results[2499].id == "2499"
    assert [job.id for job in queue.list("t", page=1000)] == [str(number) for number in range(2500) if number != 1700]
    taken = [job for _ in range(3) for job in queue.take("t", max=1000, wait=0)]
    assert queue.ack_many(taken) == [None] * 2499
    assert all(isinstance(one, libtarry.LeaseEnded) for one in queue.ack_many(job.lease for job in taken))


def test_cancel_returns_whether_the_job_existed(queue):
    queue.push("t", id="a", delay=60)
    assert queue.cancel("t", "a") is True
    assert queue.cancel("t", "a") is False
    queue.push("t", id="b")
    (job,) = queue.take("t", wait=0)
    with pytest.raises(libtarry.Conflict) as refused:
        queue.cancel("t", "b")
    assert (refused.value.code, refused.value.state) == ("leased", "leased")
    assert queue.request_cancel("t", "b") == "requested"
    assert job.extend() is True
    job.nack()
    assert queue.get("t", "b") is None
    assert queue.request_cancel("t", "b") is None
    queue.push_many({"topic": "t", "id": id, "delay": 1} for id in "cd")
    outcomes = queue.cancel_many("t", "cxd")
    assert outcomes[0] is outcomes[2] is None and isinstance(outcomes[1], libtarry.NotFound)


def test_a_job_is_rescheduled_and_run_by_its_id(queue):
    due_ms = queue.push("t", id="a", delay=HOUR).due_ms
    assert queue.reschedule("t", "a", delay=2 * HOUR, priority=1) == due_ms + HOUR * 1000
    assert queue.get("t", "a").priority == 1
    queue.run("t", "a")
    (job,) = queue.take("t", wait=0)
    with pytest.raises(libtarry.NotFound):
        queue.reschedule("t", "b", delay=1)
    assert job.id == "a"


def test_answers_end_extend_and_give_back_leases(queue):
    queue.push("t", b"1", id="a", lease=10)
    (job,) = queue.take("t", wait=0)
    queue.advance(9)
    assert job.extend(20) is False
    queue.advance(19)
    job.give_back()
    (job,) = queue.take("t", wait=0, lease=1, consumer="host:1")
    assert (job.attempt, queue.get("t", "a").consumer) == (1, "host:1")
    queue.advance(2)
    with pytest.raises(libtarry.LeaseEnded):
        job.ack()
    pass_time(queue, 600)
    (job,) = queue.take("t", wait=0)
    job.nack(delay=5)
    pass_time(queue, 5)
    (job,) = queue.take("t", wait=0)
    job.nack(final=True, error="never")
    assert (queue.get("t", "a").state, queue.get("t", "a").last_error) == ("dead", "never")


def test_a_job_comes_again_with_another_body_in_one_step(queue):
    queue.push("beat", b"1", id="a")
    (job,) = queue.take("beat", wait=0)
    job.again({"n": 2}, delay=60)
    assert queue.take("beat", wait=0) == []
    pass_time(queue, 60)
    (job,) = queue.take("beat", wait=0)
    assert (job.id, job.attempt, job.json()) == ("a", 1, {"n": 2})
    job.again()
    (job,) = queue.take("beat", wait=0)
    assert job.json() == {"n": 2}


def test_jobs_come_by_priority_then_due_and_from_several_topics(queue):
    queue.push("a", b"3", priority=200)
    queue.push("a", b"1", priority=1)
    queue.push("a", b"2")
    queue.push("b", b"4")
    assert [job.body for job in queue.pop("a", "b", max=10, wait=0)] == [b"1", b"2", b"3", b"4"]


def test_topics_have_settings_and_figures(queue):
    settings = libtarry.Settings(
        lease=5, ttl=100, max_attempts=3, backoff="exp:100ms..5000ms", priority=9, on_conflict="keep", dedup_window=60, max_jobs=2, dead_letter_expired=True
    )
    queue.put_topic("t", settings)
    assert queue.settings("t") == settings
    queue.put_topic("t", libtarry.Settings(max_jobs=2, backoff="fixed:250ms"))
    assert queue.settings("t") == libtarry.Settings(max_jobs=2, backoff="fixed:250ms")
    queue.put_topic("t", libtarry.Settings(max_jobs=2, backoff="list:100ms,1m30s,5"))
    assert queue.settings("t") == libtarry.Settings(max_jobs=2, backoff="list:100ms,90000ms,5ms")
    queue.push_many([{"topic": "t", "id": "a"}, {"topic": "t", "id": "b", "delay": 1}])
    with pytest.raises(libtarry.Full) as refused:
        queue.push("t")
    assert refused.value.code == "topic_full"
    figures = queue.topic("t")
    assert (figures.ready, figures.delayed, figures.pushed) == (1, 1, 2)
    with pytest.raises(libtarry.NotFound):
        queue.topic("missing")
    queue.pause("t", 60)
    assert queue.topic("t").is_paused and queue.take("t", wait=0) == []
    queue.resume("t")
    (job,) = queue.take("t", wait=0)
    job.nack(final=True)
    assert (queue.redrive("t"), queue.topic("t").redriven) == (1, 1)
    assert queue.purge("t", "delayed") == 1
    assert queue.purge("t") == 1
    queue.push("t")
    assert queue.delete_topic("t") == 1
    for number in range(250):
        queue.put_topic(f"n{number:03}")
    assert [topic.name for topic in queue.topics()] == [f"n{number:03}" for number in range(250)]


def test_limits_of_a_queue_hold():
    with libtarry.open(memory_max=100_000, body_max=10, topics_max=1) as queue:
        with pytest.raises(libtarry.Full) as refused:
            for _ in range(10_000):
                queue.push("t", b"123456789")
        assert refused.value.code == "no_space"
        with pytest.raises(libtarry.Refused) as refused:
            queue.push("t", b"12345678901")
        assert refused.value.code == "body_too_big"
    with pytest.raises(libtarry.Refused, match="test_clock_ms"):
        libtarry.open(test_clock=1e15)


def test_a_queue_without_test_clock_goes_by_the_time():
    with libtarry.open() as queue:
        with pytest.raises(libtarry.Refused):
            queue.advance(1)
        start = queue.now()
        queue.push("t", delay=0.05)
        (job,) = queue.take("t", wait=60)
        assert queue.now() - start >= 0.05
        job.ack()
        assert queue.take("t", wait=0.01) == []


def test_two_queues_have_two_clocks_and_nothing_in_common():
    with libtarry.open(test_clock=1000.0) as first, libtarry.open(test_clock=True) as second:
        first.push("t", delay=10)
        second.push("t", delay=10)
        pass_time(first, 10)
        assert len(first.take("t", wait=0)) == 1 and second.take("t", wait=0) == []
        assert first.now() == 1010.001


def test_a_job_outlives_its_queue():
    queue = libtarry.open()
    queue.push("t", b"kept", id="a")
    (job,) = queue.pop("t")
    queue.close()
    queue.close()
    assert (job.id, job.body) == ("a", b"kept")
    with pytest.raises(libtarry.Closed):
        job.ack()
    for call in (lambda: queue.push("t"), lambda: queue.take("t"), lambda: queue.take("t", wait=0), queue.now, lambda: queue.topic("t")):
        with pytest.raises(libtarry.Closed):
            call()


def test_a_queue_that_nobody_closes_goes_with_its_last_reference():
    queue = libtarry.open()
    queue.push("t")
    (job,) = queue.take("t")
    gone = weakref.ref(queue)
    del queue
    assert gone() is not None  # the job may still be answered
    job.ack()
    del job
    assert gone() is None


def test_jobs_that_are_dropped_give_their_memory_back():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    with libtarry.open() as queue:
        before = resident()
        for _ in range(3000):
            queue.push("t", b"x" * 100_000)  # 300 MB in all
            queue.pop("t", wait=0)
        assert resident() - before < 50e6


def test_a_kept_job_is_found_with_its_result(queue):
    queue.put_topic("t", libtarry.Settings(keep_finished=HOUR, keep_finished_max=2))
    assert (queue.settings("t").keep_finished, queue.settings("t").keep_finished_max) == (HOUR, 2)
    for number in range(3):
        queue.push("t", b"", id=str(number))
        (job,) = queue.take("t", wait=0)
        job.extend(progress=f"{number} of 3")
        job.ack({"sum": number})
    kept = queue.get("t", "2")
    assert (kept.state, kept.outcome, kept.result_json(), kept.result_type, kept.progress) == ("finished", "acked", {"sum": 2}, "application/json", "2 of 3")
    assert kept.finished_at is not None
    assert [job.id for job in queue.list("t", state="finished")] == ["2", "1"]
    assert (queue.topic("t").finished, queue.finished_dropped()) == (2, 1)
    assert queue.purge("t", "finished") == 2
    assert queue.get("t", "2") is None


def test_a_push_decides_how_long_its_job_is_kept(queue):
    queue.push("t", b"", id="a", keep_finished=60)
    queue.pop("t", wait=0)
    assert queue.get("t", "a").outcome == "acked"
    pass_time(queue, 60)
    assert queue.get("t", "a") is None


def test_a_wait_ends_with_the_job_or_with_its_time():
    with libtarry.open() as queue:
        queue.push("t", b"", id="a", delay=HOUR)
        assert queue.wait("t", "a", wait=0.01).state == "delayed"
        assert queue.wait("t", "unknown", wait=0) is None
        worker = threading.Thread(target=lambda: queue.take("t")[0].ack("done"))
        worker.start()
        ended = queue.push_and_wait("t", b"x", wait=30)
        worker.join()
        assert (ended.outcome, ended.result) == ("acked", b"done")
        queue.push("t", b"", id="b")
        queue.take("t")[0].nack(error="no", final=True)
        assert queue.wait("t", "b").state == "dead"


def test_a_job_waits_for_its_members(queue):
    queue.push("t", "last", id="w", waits=True, on_dead="hold", wait_at_most=3600, close_within=60)
    with pytest.raises(libtarry.NotFound):
        queue.push("m", "x", batch=("t", "none"))
    queue.push_many([{"topic": "m", "id": name, "batch": ("t", "w")} for name in "ab"])
    own = queue.get("t", "w").own_batch
    assert own.waits_for == 2 and own.on_dead == "hold" and not own.is_closed and own.outcomes["unfinished"] == 2
    assert queue.get("m", "a").batch == ("t", "w") and queue.get("m", "a").own_batch is None and queue.get("t", "w").batch is None
    queue.close_batch("t", "w")
    (parent,) = queue.take("m", wait=0)
    queue.push("m", "x", id="c", batch=("t", "w"), parent=parent)
    with pytest.raises(libtarry.Conflict) as closed:
        queue.push("m", "x", id="d", batch=("t", "w"))
    assert closed.value.code == "batch_closed"
    parent.nack(final=True)
    assert {job.id for job in queue.members("t", "w", page=1)} == {"a", "b", "c"} and [job.id for job in queue.members("t", "w", outcome="dead")] == ["a"]
    with pytest.raises(libtarry.NotFound):
        list(queue.members("t", "none"))
    queue.redrive("m")
    for job in queue.take("m", max=10, wait=0):
        job.ack()
    (last,) = queue.take("t", wait=0)
    assert last.meta == {"tarry-batch": "acked=3 dead=0 cancelled=0 expired=0 missing=0"} and last.own_batch.has_ended


def test_a_cancelled_batch_ends_with_its_members(queue):
    queue.push("t", "last", id="w", waits=True, members=2)
    queue.push_many([{"topic": "m", "id": name, "batch": ("t", "w")} for name in "ab"])
    assert queue.get("t", "w").own_batch.is_closed
    (held,) = queue.take("m", wait=0)
    assert queue.cancel_batch("t", "w") and not queue.cancel_batch("t", "w")
    assert held.extend() and not queue.take("m", wait=0)
    with pytest.raises(ValueError):
        queue.push("t", "x", on_dead="wait")


def test_groups_limits_and_holds(queue):
    settings = libtarry.Settings(limit=9, rate="100/s", burst=50, group_limit=1, group_rate="90/m", group_burst=5, group_max_jobs=8, one_shard=True)
    queue.put_topic("t", settings)
    assert queue.settings("t") == settings
    for group in ("a", "a", "b", None):
        queue.push("t", b"", group=group)
    first, second, third = queue.take("t", max=9, wait=0)
    assert [first.group, second.group, third.group] == ["a", "b", None]
    queue.ack(first, hold=HOUR)
    queue.nack(second, hold=HOUR, final=True)
    queue.give_back(third)
    assert [job.group for job in queue.take("t", max=9, wait=0)] == [None]
    queue.put_topic("ledger", libtarry.Settings(group_order="strict"))
    assert queue.settings("ledger").group_order == "strict"
    for bad in ({"rate": "10"}, {"rate": "x/s"}, {"group_order": "loose"}):
        with pytest.raises(ValueError):
            queue.put_topic("t", libtarry.Settings(**bad))
