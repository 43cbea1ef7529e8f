"""A script's change is whole or not there, wherever a crash cuts Redis' append-only file off, and however often it happens."""

import random

import pytest
from abi import ACK, CANCEL, NACK, RESCHEDULE, Shard, job
from redis_servers import RedisServer

CUTS = 12


def work(shard, draw, round_number):
    """Makes some of everything, in calls of several jobs each."""
    topic = draw.choice("tu")
    shard.push(topic, *[job(f"{round_number}-{n}", b"x" * draw.randrange(300), delay=draw.choice((None, 1, 20, 100_000))) for n in range(draw.randrange(1, 40))])
    taken = shard.take(topic, draw.randrange(1, 30))
    shard.answer(*[(draw.choice((ACK, ACK, NACK)), found.delivery) for found in taken[:-2]])
    shard.change(topic, *[(CANCEL, f"{round_number}-{n}") for n in range(draw.randrange(1, 5))])
    shard.change(topic, *[(RESCHEDULE, f"{round_number}-{n}", {"delay": draw.randrange(200_000)}) for n in range(5, 10)])
    shard.advance_all()
    shard.pack(50)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_log_cut_off_anywhere_and_mended_holds_whole_changes(seed):
    draw = random.Random(seed)
    with RedisServer(aof="always") as server:
        shard, log = Shard(server.client(), check=False), server.directory / "appendonlydir" / "appendonly.aof.1.incr.aof"
        shard.hello()
        for number in range(CUTS):
            for step in range(3):
                work(shard, draw, f"{number}-{step}")
            server.kill()
            whole = log.read_bytes()
            log.write_bytes(whole[:-draw.randrange(1, min(len(whole) // 2, 20_000))])
            server.start()
            shard = Shard(server.client(), server=f"{0x100 + number:08x}", check=False)
            shard.must_be_sound()
            shard.hello()
        server.restart("kill")
        Shard(server.client(), check=False).must_be_sound()
