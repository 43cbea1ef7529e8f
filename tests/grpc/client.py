"""The calls of the service by a generated client: argument is the address. Prints what it saw, one line each."""

import queue
import sys

import grpc
from tarry.v1 import queue_pb2 as tarry
from tarry.v1 import queue_pb2_grpc

with grpc.insecure_channel(sys.argv[1]) as channel:
    stub = queue_pb2_grpc.QueueStub(channel)
    for job in "ab":
        stub.Push(tarry.PushRequest(topic="mail", id=job, body=b"x\x00", meta={"k": "v"}), timeout=20)
    job = stub.Take(tarry.TakeRequest(topics=["mail"]), timeout=20).jobs[0]
    print("taken", job.id, len(job.body), job.meta["k"])
    stub.Ack(tarry.AnswerRequest(lease=job.lease), timeout=20)
    try:
        stub.Ack(tarry.AnswerRequest(lease=job.lease), timeout=20)
    except grpc.RpcError as error:
        print("error", error.code().name)
    print("empty", len(stub.Take(tarry.TakeRequest(topics=["none"]), timeout=2).jobs))
    out = queue.Queue()
    out.put(tarry.WorkRequest(hello=tarry.Hello(topics=["mail"], credit=5, confirm=True)))
    for message in stub.Work(iter(out.get, None), timeout=20):
        kind = message.WhichOneof("kind")
        print("work", kind, message.job.id)
        if kind == "job":
            out.put(tarry.WorkRequest(answer=tarry.Answer(verb=tarry.VERB_ACK, answer=tarry.AnswerRequest(lease=message.job.lease))))
            out.put(None)
    print("end")
