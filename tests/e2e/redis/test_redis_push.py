"""The commands that a push sends to Redis."""

import pytest
from redis_servers import RedisServer


@pytest.mark.parametrize("shards", ["1", "8"])
def test_existing_ids_are_checked_only_for_ids_of_the_producer(shards, start_server):
    with RedisServer() as server:
        client, control = start_server("--store", server.url, "--shards", shards).client(), server.client()

        def asked(*idents):
            control.config_resetstat()
            for ident in idents:
                client.push("t", ident)
            return control.info("commandstats").get("cmdstat_hmget", {"calls": 0})["calls"]

        made, given = asked(*[None] * 20), asked(*[f"given-{number}" for number in range(20)])
        assert made == 0 and given == 20
