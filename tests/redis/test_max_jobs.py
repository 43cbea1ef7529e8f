"""A topic's max_jobs: the share of one shard of eight, rounded up."""

from abi import CREATED, REPLACED, TOPIC_FULL, TOPIC_PUT, job, settings


def statuses(answers):
    return [answer[0] for answer in answers]


def test_a_batch_is_let_in_up_to_the_limit(shard):
    shard.topic(TOPIC_PUT, "t", settings(max_jobs=17), 1)
    assert statuses(shard.push("t", *(job(f"j{i}") for i in range(5)))) == [CREATED] * 3 + [TOPIC_FULL] * 2
    assert statuses(shard.push("t", job("j0"), job("new"), job("made", made=True))) == [REPLACED, TOPIC_FULL, TOPIC_FULL]


def test_a_repeated_id_in_a_batch_counts_once(shard):
    shard.topic(TOPIC_PUT, "t", settings(max_jobs=16), 1)
    assert statuses(shard.push("t", job("a"), job("a"), job("b"), job("c"))) == [CREATED, REPLACED, CREATED, TOPIC_FULL]


def test_delayed_and_leased_ones_count_and_purged_ones_do_not(shard):
    shard.topic(TOPIC_PUT, "t", settings(max_jobs=16), 1)
    shard.push("t", job("a"), job("b", delay=60000))
    shard.take("t")
    assert statuses(shard.push("t", job("c"))) == [TOPIC_FULL]
    shard.purge_all("t")
    assert statuses(shard.push("t", job("c"), job("d"))) == [CREATED, TOPIC_FULL]
    shard.topic(TOPIC_PUT, "t", settings(), 1)
    assert statuses(shard.push("t", job("d"))) == [CREATED]


def test_dead_ones_count(shard):
    shard.topic(TOPIC_PUT, "t", settings(max_jobs=8), 1)
    assert statuses(shard.push("t", job("dead", past=(1, 3, b"gave up")))) == [CREATED]
    assert statuses(shard.push("t", job("new"))) == [TOPIC_FULL]
