"""A real nginx that is killed in the middle of deliveries: nothing it did not take is lost, and what it gets twice has its cause."""

import collections

import pytest
from delivery import counts, totals
from nginx import Nginx
from server import eventually

JOBS = 3000


@pytest.fixture
def nginx(tmp_path):
    nginx = Nginx(tmp_path / "nginx", fields="$http_tarry_id $http_tarry_attempt $status")
    yield nginx
    nginx.stop()


def test_an_nginx_that_is_killed_gets_all_of_it_and_duplicates_have_their_cause(start_delivering, nginx):
    server = start_delivering()
    client = server.client()
    descriptors = server.descriptors()
    client.put_topic("orders", backoff="fixed:300ms", max_attempts=1000, deliver={"to": f"http://127.0.0.1:{nginx.port}/", "max_in_flight": 64, "rate": "2000/s"})
    for at in range(0, JOBS, 1000):
        client.push_batch([{"topic": "orders", "id": f"j-{at + n}", "body": "x" * 200} for n in range(1000)])
    for round_number in range(1, 4):
        eventually(lambda: totals(client, "orders")["acked"] > JOBS // 4 * round_number - 300, 60)
        nginx.kill()
        eventually(lambda: totals(client, "orders")["nacked"] > 0, 20)
        nginx.start()
    eventually(lambda: totals(client, "orders")["acked"] == JOBS, 90)
    came = collections.defaultdict(list)
    for ident, attempt, status in nginx.came():
        assert status == "204"
        came[ident].append(int(attempt))
    # Requests shortly before the kill of nginx may be missing in its log, but not later ones.
    assert len(came) > JOBS - 3 * 64 - 3
    for attempts in came.values():
        assert attempts == sorted(set(attempts)), "each repetition is an attempt of its own: the answer to the one before was lost"
    assert totals(client, "orders")["nacked"] > 0 and counts(client, "orders")["dead"] == 0
    eventually(lambda: server.descriptors() <= descriptors + 8, 30)
