"""A client of the service by Debian's grpcio. Its messages come from proto/ at run time, so no code is generated."""

import pathlib
import subprocess
import tempfile

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

REPO = pathlib.Path(__file__).resolve().parents[3]
FILES = ("tarry/v1/queue.proto", "grpc/health/v1/health.proto", "grpc/reflection/v1alpha/reflection.proto")


def descriptors():
    """The descriptors of the services, as a set."""
    with tempfile.NamedTemporaryFile(suffix=".pb") as out:
        subprocess.run(["protoc-c", "-I", REPO / "proto", "--include_imports", f"--descriptor_set_out={out.name}", *FILES], check=True, timeout=60)
        return descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(out.name).read_bytes())


class Messages:
    """Messages by their names, and the methods of the services."""

    def __init__(self):
        self.pool = descriptor_pool.DescriptorPool()
        for file in descriptors().file:
            self.pool.Add(file)
        self.factory = message_factory.MessageFactory(self.pool)

    def __getattr__(self, name):
        return self.of(f"tarry.v1.{name}")

    def of(self, full_name):
        return self.factory.GetPrototype(self.pool.FindMessageTypeByName(full_name))

    def methods(self, service):
        return self.pool.FindServiceByName(service).methods_by_name


MESSAGES = Messages()


def fails(code, call, **fields):
    """Expects the call to fail with the code. Returns the error."""
    with pytest.raises(grpc.RpcError) as failed:
        call(**fields)
    assert failed.value.code() == code, failed.value
    return failed.value


class Stub:
    """Calls of a service: `stub.Push(topic="mail", timeout=2)` returns the message, `stub.open("Work", messages)` a stream."""

    def __init__(self, channel, service="tarry.v1.Queue", metadata=()):
        self.channel, self.service, self.metadata = channel, service, tuple(metadata)

    def __getattr__(self, method):
        call = self.callable(method)
        request = MESSAGES.of(MESSAGES.methods(self.service)[method].input_type.full_name)

        def invoke(message=None, timeout=20, metadata=(), **fields):
            return call(message if message is not None else request(**fields), timeout=timeout, metadata=(*self.metadata, *metadata))

        invoke.future = lambda timeout=20, **fields: call.future(request(**fields), timeout=timeout, metadata=self.metadata)
        return invoke

    def callable(self, method, kind="unary_unary"):
        described = MESSAGES.methods(self.service)[method]
        request, response = (MESSAGES.of(each.full_name) for each in (described.input_type, described.output_type))
        return getattr(self.channel, kind)(f"/{self.service}/{method}", request_serializer=request.SerializeToString, response_deserializer=response.FromString)

    def open(self, method, messages, timeout=30):
        return self.callable(method, "stream_stream")(messages, timeout=timeout, metadata=self.metadata)


def channel(port, **options):
    return grpc.insecure_channel(f"127.0.0.1:{int(port)}", options=tuple(options.items()))


def duration(seconds):
    made = MESSAGES.of("google.protobuf.Duration")()
    made.seconds, made.nanos = int(seconds), round(seconds % 1 * 1e9)
    return made


def details(error):
    """The reason and the metadata of the ErrorInfo in an error's details, read without its generated code."""
    raw = dict(error.trailing_metadata())["grpc-status-details-bin"]
    text = raw.decode("latin-1")
    return text
