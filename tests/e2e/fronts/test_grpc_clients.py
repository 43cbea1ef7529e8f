"""Clients in several languages, generated from the .proto file, with their own libraries: they play scenarios of clients/conformance behind a proxy that cuts
connections. And grpcurl and ghz, which need no file. All come from their registries once, into build-grpc/."""

import contextlib
import functools
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import urllib.request

import pytest
from conftest import FLAGS
from server import REPO, free_port

PLACE = REPO / "build-grpc"
SOURCES = REPO / "tests" / "grpc"
PROTOS = REPO / "proto"
sys.path.append(str(REPO / "clients" / "conformance"))
import adapters  # noqa: E402
import run as conformance  # noqa: E402

UNARY = [
    "push_cut_after", "push_cut_within", "push_many_after_a_cut", "too_many_requests", "gateway_timeout", "cancel_whose_answer_was_lost", "take_is_never_made_again",
    "ack_whose_answer_was_lost", "give_back", "nack_and_extend", "a_chain_is_pushed_in_one_call", "a_cancelled_batch_ends_with_its_members",
]
WORK = ["worker_acks_each_once", "worker_behind_a_bad_network", "worker_on_streams_that_break", "handlers_say_how_it_went", "stop_under_load"]
SILENT = ["worker_behind_a_silent_network"]  # not for Go and Java, which send no PING within 10 s
JVM = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]  # programs that run for seconds
# Dubbo needs seconds to connect again, and does not show the details of an error.
DUBBO = ["push_cut_after", "push_many_after_a_cut", "cancel_whose_answer_was_lost", "nack_and_extend", "a_chain_is_pushed_in_one_call"]


def run(*command, cwd=PLACE, **env):
    done = subprocess.run([str(word) for word in command], cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, f"{command[:3]}: {done.stdout[-2000:]}{done.stderr[-3000:]}"
    return [line.rstrip() for line in done.stdout.splitlines() if line.strip()]


def needs(*programs):
    for program in programs:
        if not shutil.which(program):
            pytest.skip(f"{program} is not installed")


@pytest.fixture
def address(start_server):
    PLACE.mkdir(exist_ok=True)
    server = start_server(*FLAGS)
    return f"127.0.0.1:{server.port}"


def plays(name, scenarios, *command, cwd=PLACE):
    """Plays scenarios with a program that makes the calls of a generated client."""
    adapters.ADAPTERS[f"grpc-{name}"] = (cwd, [sys.executable, str(SOURCES / "adapter.py"), *map(str, command)], [])
    faults = {scenario: fault for scenario in scenarios if (fault := conformance.play(f"grpc-{name}", scenario))}
    assert not faults, "\n".join(f"{scenario}: {fault}" for scenario, fault in faults.items())


def python():
    """A Python with grpcio and its generator."""
    place = PLACE / "python"
    if not (place / "tarry" / "v1" / "queue_pb2_grpc.py").exists():
        run(sys.executable, "-m", "venv", place / "venv", cwd=REPO)
        run(place / "venv/bin/pip", "install", "-q", "grpcio-tools==1.85.1")
    run(place / "venv/bin/python", "-m", "grpc_tools.protoc", "-I", PROTOS, f"--python_out={place}", f"--grpc_python_out={place}", "tarry/v1/queue.proto")
    return place


def test_python():
    place = python()
    plays("python", UNARY + WORK + SILENT, "env", f"PYTHONPATH={place}", place / "venv/bin/python", SOURCES / "client.py")


def test_node():
    needs("npm")
    place = PLACE / "node"
    if not (place / "node_modules" / "@grpc" / "grpc-js").exists():
        place.mkdir(parents=True, exist_ok=True)
        (place / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        run("npm", "install", "--silent", "--no-audit", "--no-fund", "@grpc/grpc-js@1.14.3", "@grpc/proto-loader@0.8.0", cwd=place)
    shutil.copy(SOURCES / "client.mjs", place)
    plays("node", UNARY + WORK + SILENT, "env", f"TARRY_PROTOS={PROTOS}", "node", "client.mjs", cwd=place)


def test_go():
    needs("go")
    place, bin = PLACE / "go", PLACE / "bin"
    (place / "tarry").mkdir(parents=True, exist_ok=True)
    for tool in ("google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.11", "google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.0"):
        if not (bin / tool.rpartition("/")[2].partition("@")[0]).exists():
            run("go", "install", tool, GOBIN=str(bin), GOFLAGS="-mod=mod")
    shutil.copy(SOURCES / "go" / "main.go", place)
    run(python() / "venv/bin/python", "-m", "grpc_tools.protoc", "-I", PROTOS, "--go_out=.", "--go-grpc_out=.", "tarry/v1/queue.proto", cwd=place, PATH=f"{bin}:{os.environ['PATH']}")
    if not (place / "go.mod").exists():
        run("go", "mod", "init", "client", cwd=place)
    run("go", "mod", "tidy", cwd=place)
    run("go", "build", "-o", "client", ".", cwd=place)
    plays("go", UNARY + WORK, place / "client")


@functools.cache
def java_classes():
    """Returns the folder of the classes, and their class path. Other sources get another folder: a client that runs loads its classes when it needs them."""
    needs("mvn", "java")
    folders = {SOURCES / "java": "", REPO / "clients" / "java" / "src" / "main" / "java": "src/main/java"}
    files = sorted(path for folder in (*folders, PROTOS) for path in folder.rglob("*") if path.is_file())
    place = PLACE / f"java-{hashlib.sha256(b''.join(path.read_bytes() for path in files)).hexdigest()[:12]}"
    if not (place / "classpath").exists():
        PLACE.mkdir(parents=True, exist_ok=True)
        made = pathlib.Path(tempfile.mkdtemp(prefix="java-", dir=PLACE))
        for folder, target in folders.items():
            shutil.copytree(folder, made / target, dirs_exist_ok=True)
        run("mvn", "-q", "-B", f"-Dprotos={PROTOS}", "compile", "dependency:build-classpath", "-Dmdep.outputFile=classpath", cwd=made, MAVEN_OPTS=" ".join(JVM))
        with contextlib.suppress(OSError):  # another process was faster
            made.rename(place)
        shutil.rmtree(made, ignore_errors=True)
    (place / "hosts").write_text(f"127.0.0.1 tarry.test {os.uname().nodename}\n", encoding="ascii")  # Dubbo replaces 127.0.0.1 by another address of the machine
    return place, f"target/classes:{pathlib.Path(place / 'classpath').read_text()}"


def java(main):
    """Returns the folder of the classes, and the command that runs one of them."""
    place, classpath = java_classes()
    hosts = [f"-Djdk.net.hosts.file={place / 'hosts'}"] if main.startswith("Dubbo") else []
    return place, ["java", *JVM, *hosts, "-cp", classpath, main]


def test_java():
    place, command = java("Client")
    plays("java", UNARY + WORK, *command, cwd=place)


def test_dubbo():
    place, command = java("Dubbo")
    plays("dubbo", DUBBO, *command, cwd=place)


@pytest.mark.parametrize("protocol", ["dubbo", "tri"])
def test_a_dubbo_consumer_of_mykit_delay(start_server, protocol):
    """The interface of mykit-delay on top of tarry, as the service of a Dubbo provider."""
    mykit, dubbo = free_port(), free_port()
    server = start_server("--mykit", f"127.0.0.1:{mykit}")
    place, command = java("DubboDelay")
    lines = run(*command, f"127.0.0.1:{mykit}", protocol, dubbo, cwd=place)
    assert [line for line in lines if line.split()[0] in ("push", "no", "delete", "finish", "restore", "clear", "made")] == [
        "push true o-1", "push true o-2", "no topic false null", "delete true null", "finish false null", "restore job false null", "clear false null", "made true"]
    job = server.client().get("orders", "o-1")
    assert (job["body"], job["meta"], job["state"]) == ('{"total":12}', {"bizkey": "b-7"}, "delayed")
    assert server.client().topic("orders")["counts"]["delayed"] == 2


def test_cpp():
    needs("g++", "protoc", "grpc_cpp_plugin")
    place = PLACE / "cpp"
    place.mkdir(parents=True, exist_ok=True)
    program = place / "client"
    if not program.exists() or program.stat().st_mtime < max(path.stat().st_mtime for path in (SOURCES / "client.cc", PROTOS / "tarry/v1/queue.proto")):
        run("protoc", "-I", PROTOS, f"--cpp_out={place}", f"--grpc_out={place}", f"--plugin=protoc-gen-grpc={shutil.which('grpc_cpp_plugin')}", "tarry/v1/queue.proto")
        sources = [SOURCES / "client.cc", "tarry/v1/queue.pb.cc", "tarry/v1/queue.grpc.pb.cc"]
        run("g++", "-std=c++17", "-I", place, *sources, "-o", program, *run("pkg-config", "--libs", "grpc++", "protobuf")[0].split(), cwd=place)
    plays("cpp", UNARY + WORK + SILENT, program)


def test_ghz(address):
    """Each call is OK, and stored."""
    needs("go")
    bin = PLACE / "bin"
    if not (bin / "ghz").exists():
        run("go", "install", "github.com/bojand/ghz/cmd/ghz@v0.120.0", GOBIN=str(bin), GOFLAGS="-mod=mod")
    call = ["--insecure", "-n", "2000", "-c", "16", "-O", "json"]
    report = json.loads("".join(run(bin / "ghz", *call, "--call", "tarry.v1.Queue/Push", "-d", '{"topic":"orders","body":"aGVsbG8="}', address)))
    assert report["count"] == 2000 and report["statusCodeDistribution"] == {"OK": 2000}
    taken = json.loads("".join(run(bin / "ghz", *call, "--call", "tarry.v1.Queue/Take", "-d", '{"topics":["orders"]}', address)))
    assert taken["statusCodeDistribution"] == {"OK": 2000}
    page = urllib.request.urlopen(f"http://{address}/v1/topics/orders", timeout=20).read()
    assert json.loads(page)["counts"]["leased"] == 2000


def test_grpcurl(address):
    needs("go")
    bin = PLACE / "bin"
    if not (bin / "grpcurl").exists():
        run("go", "install", "github.com/fullstorydev/grpcurl/cmd/grpcurl@v1.9.3", GOBIN=str(bin), GOFLAGS="-mod=mod")
    assert "tarry.v1.Queue" in run(bin / "grpcurl", "-plaintext", address, "list")
    pushed = run(bin / "grpcurl", "-plaintext", "-d", '{"topic":"mail","body":"aGVsbG8=","delay":"30s"}', address, "tarry.v1.Queue/Push")
    assert any('"RESULT_CREATED"' in line for line in pushed)
    failed = subprocess.run([bin / "grpcurl", "-plaintext", "-d", '{"topic":"mail","id":"none"}', address, "tarry.v1.Queue/Get"], capture_output=True, text=True, timeout=60, check=False)
    assert "Code: NotFound" in failed.stderr and '"reason": "not_found"' in failed.stderr
