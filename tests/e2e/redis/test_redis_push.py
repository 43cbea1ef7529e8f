"""What a push asks of Redis."""

import pytest
from redis_servers import RedisServer


@pytest.mark.parametrize("shards", ["1", "8"])
def test_whether_the_id_has_a_job_is_asked_only_where_the_producer_gave_it(shards, start_server):
    with RedisServer() as server:
        client, control = start_server("--store", server.url, "--shards", shards).client(), server.client()

        def asked(*idents):
            control.config_resetstat()
            for ident in idents:
                client.push("t", ident)
            return control.info("commandstats").get("cmdstat_hmget", {"calls": 0})["calls"]

        made, given = asked(*[None] * 20), asked(*[f"given-{number}" for number in range(20)])
        assert made == 0 and given == 20
