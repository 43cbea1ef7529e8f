"""Uses the client that openapi-generator made for Python. Prints what it received as one JSON object."""

import json
import os
import sys

import tarry_api
from tarry_api import models

topic, body_file = sys.argv[1:]
api = tarry_api.ApiClient(tarry_api.Configuration(host=os.environ["TARRY_URL"]))
push, jobs, consume, topics, server = tarry_api.PushApi(api), tarry_api.JobsApi(api), tarry_api.ConsumeApi(api), tarry_api.TopicsApi(api), tarry_api.ServerApi(api)
seen = {}


def refusal(call):
    try:
        call()
    except tarry_api.ApiException as refused:
        return [refused.status, refused.data.code]
    return None


settings = topics.set_topic(topic, settings=models.Settings(lease_for="45s", max_attempts=3, push_rate="1000/s")).settings
seen["settings"] = [settings.lease_for, settings.max_attempts, settings.push_rate]
seen["patched"] = topics.patch_topic(topic, {"max_attempts": "none"}).settings.max_attempts

with open(body_file, "rb") as file:
    seen["pushed"] = push.push(topic, "now", body=file.read()).actual_instance.result
seen["delayed"] = push.push(topic, "later", delay="1h", priority=7, max_attempts="5", body=b"later").actual_instance.state
seen["listed"] = [[job.id, job.state, job.priority] for job in jobs.list_jobs(topic, state=models.State.DELAYED).jobs]
seen["due_at"] = int(jobs.get(topic, "later").due_at.timestamp())

job = consume.take(topic, max=1, body="base64", lease_for="30s").jobs[0]
seen["taken"] = [job.id, job.body_base64, job.attempt]
seen["delivery"] = job.delivery
seen["extended"] = consume.extend(lease=[job.lease], lease_for="1m").results[0].result
seen["acked"] = consume.ack(ack_leases=models.AckLeases(leases=[models.AckLease(job.lease)])).results[0].result
seen["acked_again"] = refusal(lambda: consume.ack(lease=[job.lease]))

items = [models.Item(topic=topic, id="a", body={"n": 1}, meta={"kind": "x"}), models.Item(topic=topic, id="b", body="text"), models.Item(topic=topic, id="b ad")]
seen["batch"] = [result.result for result in push.push_batch(items).results]
first, second = consume.take_any([topic], max=2, wait="5s").jobs
seen["bodies"] = [first.body, first.meta, second.body]
options = models.NackLease(models.NackLeaseOptions(lease=first.lease, delay="1h", error="too early"))
seen["nacked"] = consume.nack(nack_leases=models.NackLeases(leases=[options])).results[0].state
seen["returned"] = consume.return_jobs(return_leases=models.ReturnLeases(leases=[models.ReturnLease(second.lease)])).results[0].state
seen["cancelled"] = jobs.cancel(topic, "later").result
seen["missing"] = refusal(lambda: jobs.get(topic, "later"))
seen["bad_delay"] = refusal(lambda: push.push(topic, "x", delay="soon", body=b""))

counts = topics.topic(topic).counts
seen["counts"] = [counts.retrying, counts.ready, counts.leased]
seen["last_error"] = jobs.get(topic, "a").last_error
seen["about"] = [server.info().name, server.server().store, server.status().well]
print(json.dumps(seen))
