"""The pieces of the protocols that others speak: the beanstalk protocol beside beanstalkd, SQS beside ElasticMQ. The same generator for both of a pair."""

import os
import statistics

from .redis_peers import has

WARM_JOBS = {"beanstalk": 20_000, "sqs": 60_000}  # before the measurement: ElasticMQ's compiler must not count
PUSH = {"beanstalk": {"connections": 8, "pipeline": 64}, "sqs": {"connections": 16, "pipeline": 1, "batch": 10}}
TAKE = {"beanstalk": {"consumers": 8, "take": 64}, "sqs": {"consumers": 16, "take": 10}}


def in_turn(bench, names, protocol, measure):
    """measure(server): what the generator printed, with `per_s` and `cpu_us`; each server warm, and fresh in each round."""
    if "elasticmq" in names and not has(bench, "elasticmq", "ElasticMQ", ("java", "mvn")):
        names = [name for name in names if name != "elasticmq"]
    runs = {name: [] for name in bench.wanted(names)}
    for number in range(bench.rounds):
        for name in runs:
            with bench.server(name, elasticmq=os.path.join(os.path.dirname(bench.generator), "elasticmq")) as server:
                bench.load(server, topic="warm", jobs=2_000 if bench.quick else WARM_JOBS[protocol], delay=0, **PUSH[protocol], **TAKE[protocol])
                result = measure(server)
            runs[name].append(result)
            bench.print_line(f"  round {number + 1}  {name:16} {result['per_s']:>10,.0f}/s   {result['cpu_us']:8.2f} us of the server's CPU each")
    out = {name: {"median": statistics.median(run["per_s"] for run in all_runs), "runs": all_runs,
                  "cpu_us": statistics.median(run["cpu_us"] for run in all_runs)} for name, all_runs in runs.items() if all_runs}
    first, *others = out
    for name in others:
        bench.print_line(f"  {first} against {name}: {out[first]['median'] / out[name]['median']:.2f} × by the clock, {out[name]['cpu_us'] / out[first]['cpu_us']:.2f} × by CPU")
    return out


def pushes(bench, protocol):
    def measure(server):
        before = server.cpu_s()
        result = bench.load(server, topic="kept", duration=f"{bench.seconds}s", delay=0, consumers=0, **PUSH[protocol])
        return {**result, "per_s": result["pushes_per_s"], "cpu_us": (server.cpu_s() - before) * 1e6 / result["pushed"]}

    return measure


def takes(bench, protocol):
    """Computes the cost of take and ack: the cost of all, less the same pushes by themselves."""
    jobs = bench.jobs or (2_000 if bench.quick else 100_000 if protocol == "beanstalk" else 30_000)

    def measure(server):
        before = server.cpu_s()
        bench.load(server, topic="kept", jobs=jobs, delay=0, consumers=0, **PUSH[protocol])
        between = server.cpu_s()
        result = bench.load(server, topic="taken", jobs=jobs, delay=0, take_after=True, **PUSH[protocol], **TAKE[protocol])
        alone, both = between - before, server.cpu_s() - between
        return {**result, "per_s": result["acks_per_s"], "cpu_us": (both - alone) * 1e6 / jobs}

    return measure


def beanstalk_put(bench):
    """put, 8 connections 64 deep: tarry, synced, beside beanstalkd without log"""
    return in_turn(bench, ["tarry-beanstalk", "beanstalkd"], "beanstalk", pushes(bench, "beanstalk"))


def beanstalk_reserve(bench):
    """reserve and delete, 8 connections, up to 64 requests in flight, of jobs that are all ready"""
    return in_turn(bench, ["tarry-beanstalk", "beanstalkd"], "beanstalk", takes(bench, "beanstalk"))


def sqs_send(bench):
    """SendMessageBatch of 10, 16 connections: tarry, synced, beside ElasticMQ, in memory"""
    return in_turn(bench, ["tarry-sqs", "elasticmq"], "sqs", pushes(bench, "sqs"))


def sqs_receive(bench):
    """ReceiveMessage of 10 and DeleteMessageBatch, 16 connections, of messages that are all ready"""
    return in_turn(bench, ["tarry-sqs", "elasticmq"], "sqs", takes(bench, "sqs"))


PIECES = {"beanstalk_put": beanstalk_put, "beanstalk_reserve": beanstalk_reserve, "sqs_send": sqs_send, "sqs_receive": sqs_receive}
