"""Export and import between two servers: nothing is lost, and nothing is made up."""

import base64
import json
import os
import time

from migration import (APART_MS, any_target, assert_same, assert_sums_add_up, everything, export, fill, fill_with_twenty_thousand,
                       jobs_in, load, moved, ms_of, push_many, source, states, take_by_id, target)  # noqa: F401, F811: fixtures


def test_every_kind_of_job_is_moved_unchanged(source, any_target):
    target = any_target
    fill(source)
    before = everything(source)
    load(target, export(source))
    after = everything(target)
    assert set(after) == {"orders", "bodies", "paused", "bare"}
    assert_same(moved(before, after), after)
    assert_sums_add_up(target)
    assert target.client().topic("orders")["counts"] == {"delayed": 2, "retrying": 1, "ready": 1, "leased": 0, "dead": 1}


def test_moved_jobs_survive_a_restart(source, target):
    fill(source)
    load(target, export(source))
    before = everything(target)
    target.restart("kill")
    assert_same(before, everything(target))
    assert_sums_add_up(target)


def test_moving_there_and_back_changes_nothing(source, any_target, start_server):
    fill(source)
    load(any_target, export(source))
    third = start_server("--sync", "never", "--shards", "3")
    dump = export(any_target)
    load(third, dump)
    now_ms = time.time() * 1000

    def comparable(lines):  # due jobs are due immediately in the new store
        return sorted(json.dumps({**job, "at": job["at"] if job["at"] > now_ms else "due"}) for job in jobs_in(lines))

    assert comparable(export(third)) == comparable(dump)


def test_attempts_continue_counting(source, any_target):
    client = source.client()
    client.push("t", "j", max_attempts=2)
    client.nack(client.take("t")[0]["lease"], delay="1ms")
    load(any_target, export(source))
    client = any_target.client()
    job = take_by_id(client, "t", "j", wait="5s")
    assert job["attempt"] == 2
    (result,) = client.nack(job["lease"])
    assert result["state"] == "dead"


def test_a_job_leased_for_its_last_attempt_gets_it_again(source, any_target):
    client = source.client()
    client.push("t", "j", max_attempts=2)
    client.nack(client.take("t")[0]["lease"], delay="1ms")
    lease = take_by_id(client, "t", "j", wait="5s", lease_for="1s")
    load(any_target, export(source))
    there = any_target.client().get("t", "j")
    assert (there["state"], there["attempt"]) == ("delayed", 1)
    assert abs(ms_of(there["due_at"]) - ms_of(lease["lease_until"])) <= APART_MS
    job = take_by_id(any_target.client(), "t", "j", wait="5s")
    assert job["attempt"] == 2
    assert any_target.client().nack(job["lease"])[0]["state"] == "dead"


def test_a_dead_job_can_be_redriven_over_there(source, any_target):
    client = source.client()
    client.push("t", "j", max_attempts=1)
    client.nack(client.take("t")[0]["lease"], error="boom")
    load(any_target, export(source))
    client = any_target.client()
    assert client.get("t", "j")["state"] == "dead" and client.get("t", "j")["last_error"] == "boom"
    assert client.take("t") == []
    assert client.topic_verb("t", "redrive")["jobs"] == 1
    assert take_by_id(client, "t", "j")["attempt"] == 1


def test_a_job_of_the_largest_size_comes_over(source, any_target, target):
    body = os.urandom(1 << 20)
    client = source.client()
    for i in range(3):
        client.push("big", f"random-{i}", body, content_type="application/octet-stream", delay="1h", meta={"k" * 60: "v" * 1000})
    client.push("big", "escaped", b"\1" * (1 << 20), delay="1h")
    load(any_target, export(source))
    load(target, export(any_target))
    assert_same(everything(source), everything(target))


def test_the_largest_job_is_moved_if_the_limits_allow_it(start_server):
    flags = ("--max-body", "13MiB", "--wal-file", "64MiB", "--sync", "never", "--shards", "1")
    source, target = start_server(*flags), start_server(*flags)
    body = os.urandom(13 << 20)
    source.client().push("big", "j", body, content_type="application/octet-stream", delay="1h")
    load(target, export(source))
    assert base64.b64decode(target.client().get("big", "j")["body_base64"]) == body


def test_jobs_of_several_shards_come_over(start_server):
    source, target = start_server("--shards", "3", "--sync", "never"), start_server("--shards", "2", "--sync", "never")
    push_many(source, 3300)
    dump = export(source)
    assert len({(job["topic"], job["id"]) for job in jobs_in(dump)}) == len(jobs_in(dump)) == 3300
    err = load(target, dump)
    assert "imported 3300 jobs: 3300 created, 0 replaced, 0 existed; 0 refused" in err
    assert_same(everything(source), everything(target))
    assert_sums_add_up(target)


def test_twenty_thousand_jobs_of_all_states_go_to_redis_and_come_back(start_server, start_redis, tmp_path):
    redis = start_redis()
    source, third = start_server("--sync", "never", "--shards", "2"), start_server("--sync", "never", "--shards", "1")
    between = start_server("--store", redis.url)
    fill_with_twenty_thousand(source)
    assert states(source) == {"delayed": 9000, "retrying": 3000, "ready": 3000, "leased": 2000, "dead": 3000}
    before = everything(source)
    assert "20000 created, 0 replaced, 0 existed; 0 refused" in load(between, export(source))
    middle = everything(between)
    assert_same(moved(before, middle), middle)
    assert states(between) == {"delayed": 11000, "retrying": 3000, "ready": 3000, "leased": 0, "dead": 3000}
    assert_sums_add_up(between)
    assert "20000 created, 0 replaced, 0 existed; 0 refused" in load(third, export(between))
    after = everything(third)
    assert_same(moved(middle, after), after)
    assert states(third) == states(between)
    assert_sums_add_up(third)
