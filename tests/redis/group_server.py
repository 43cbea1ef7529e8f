"""A server of test_groups_servers.py: takes jobs and acks, nacks or keeps them until it is killed. Its log names each lease before and after each step.

    group_server.py PORT SERVER LOG SEED
"""

import random
import sys

import redis
from abi import ACK, NACK, RETURN, Shard

LEASE_MS = 4000


def serve(port, server, log, seed):
    pick, leases = random.Random(seed), []
    shard = Shard(redis.Redis(port=port), server=server, check=False)
    shard.tickets = iter(range(seed << 24, 1 << 48))
    with open(log, "a", encoding="ascii") as out:

        def note(*lines):
            out.write("".join(f"{line}\n" for line in lines))
            out.flush()

        last = 0
        while True:
            pick.shuffle(leases)
            count = pick.randrange(len(leases) // 8 + 1)
            ending, leases = leases[:count], leases[count:]
            answers = [(pick.choice((ACK, ACK, ACK, NACK, RETURN)), delivery, 0, b"") for delivery in ending]
            note(*[f"may {delivery} {last}" for delivery in ending])  # from here on the leases may have ended
            step = shard.step(answers, [("t", pick.choice((100, 1000)), 1 << 24, LEASE_MS)], most=100)
            last = step.now
            note(*[f"end {delivery} {last}" for delivery in ending])
            note(*[f"begin {found.delivery} {last} {found.lease_until} {found.group.decode()}" for found in step.jobs[0]])
            leases += [found.delivery for found in step.jobs[0]]


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
