"""The manifests of Kubernetes, the Containerfile and the RPM spec, as far as they can be tried without a cluster and without a container engine.

The schemas are those of Kubernetes (kubernetes-validate). The server is started with the configuration of the manifests, and secrets as the kubelet mounts them.
"""

import json
import os
import re
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from conftest import REPO
from machine import run

PLACE = REPO / "packaging/kubernetes"
NAMES = ("common", "embedded", "redis")
[VERSION] = re.findall(r"^project\(tarry VERSION ([0-9.]+)", (REPO / "CMakeLists.txt").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.fixture(scope="module")
def manifests(tools):
    script = "import sys, json, yaml; print(json.dumps([one for path in sys.argv[1:] for one in yaml.safe_load_all(open(path))]))"
    return json.loads(run(tools / "python", "-c", script, *(PLACE / f"{name}.yaml" for name in NAMES)).stdout)


def of_kind(manifests, *kinds):
    return [one for one in manifests if one["kind"] in kinds]


@pytest.mark.parametrize("name", NAMES)
def test_manifests_match_their_schemas(tools, name):
    assert " passed " in run(tools / "kubernetes-validate", "--strict", PLACE / f"{name}.yaml").stdout


def test_pods_are_restricted_probed_and_given_the_time_to_drain(manifests):
    [budget] = of_kind(manifests, "PodDisruptionBudget")
    [service] = of_kind(manifests, "Service")
    kinds = of_kind(manifests, "StatefulSet", "Deployment")
    assert [one["kind"] for one in kinds] == ["StatefulSet", "Deployment"]
    for one in kinds:
        pod = one["spec"]["template"]["spec"]
        [container] = pod["containers"]
        labels = one["spec"]["template"]["metadata"]["labels"].items()
        for selector in (one["spec"]["selector"]["matchLabels"], service["spec"]["selector"], budget["spec"]["selector"]["matchLabels"]):
            assert selector.items() <= labels
        ports = {port["name"] for port in container["ports"]}
        assert {container[probe]["httpGet"]["port"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")} <= ports
        assert pod["securityContext"]["runAsNonRoot"] and container["securityContext"]["readOnlyRootFilesystem"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]} and not container["securityContext"]["allowPrivilegeEscalation"]
        assert pod["terminationGracePeriodSeconds"] >= 25 + 5 + 5, "preStop, the server's own grace, and what its store has left to do"
        assert {mount["name"] for mount in container["volumeMounts"]} <= {volume["name"] for volume in [*pod["volumes"], {"name": "data"}]}
        assert container["image"].endswith(f":{VERSION}")


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def secret(place, name, content):
    """Mounts files like the kubelet: a link to a link's directory, mode 0440."""
    (place / "..2026").mkdir(parents=True, exist_ok=True)
    (place / "..2026" / name).write_bytes(content)
    (place / "..2026" / name).chmod(0o440)
    if not (place / "..data").is_symlink():
        (place / "..data").symlink_to("..2026")
    (place / name).symlink_to(f"..data/{name}")


def asked(url, **more):
    """The status of a call."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=more.pop("headers", {})), timeout=10, **more) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_a_server_with_that_configuration_answers_probes_and_requires_tokens(manifests, builder, packages, tmp_path):
    program = builder.tree / "build-package/stripped/tarry"
    run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "30", "-subj", "/CN=tarry.tarry.svc",
        "-keyout", tmp_path / "key", "-out", tmp_path / "crt")
    token = run(program, "token", "new", "shop", "--scope", "read", "--topics", "*", "--tokens", tmp_path / "made").stdout.strip()
    secret(tmp_path / "tls", "tls.crt", (tmp_path / "crt").read_bytes())
    secret(tmp_path / "tls", "tls.key", (tmp_path / "key").read_bytes())
    secret(tmp_path / "tokens", "tokens", (tmp_path / "made").read_bytes())
    [configuration] = of_kind(manifests, "ConfigMap")
    https, probes = free_port(), free_port()
    text = configuration["data"]["tarry.conf"]
    for here, there in (("/etc/tarry-tls", tmp_path / "tls"), ("/etc/tarry-tokens", tmp_path / "tokens"), ("/var/lib/tarry", tmp_path),
                        (":8443", f":{https}"), (":8279", f":{probes}")):
        assert here in text
        text = text.replace(here, str(there))
    (tmp_path / "tarry.conf").write_text(text, encoding="utf-8")
    with subprocess.Popen([program, "serve", "--config", tmp_path / "tarry.conf"], stderr=subprocess.PIPE, text=True) as server:
        try:
            until = time.monotonic() + 20
            while "listening" not in server.stderr.readline():
                assert server.poll() is None and time.monotonic() < until
            node = {"Host": f"10.1.2.3:{probes}"}  # the kubelet calls the pod's address
            assert asked(f"http://127.0.0.1:{probes}/readyz", headers=node) == 200
            assert asked(f"http://127.0.0.1:{probes}/healthz", headers=node) == 200
            trusted = ssl.create_default_context(cafile=tmp_path / "crt")
            trusted.check_hostname = False
            client = {"Host": "tarry.tarry.svc:8443"}
            assert asked(f"https://127.0.0.1:{https}/v1/topics", headers=client, context=trusted) == 401
            assert asked(f"https://127.0.0.1:{https}/v1/topics", headers={**client, "Authorization": f"Bearer {token}"}, context=trusted) == 200
            assert asked(f"http://127.0.0.1:{probes}/v1/topics", headers=node) == 401
        finally:
            server.terminate()
            server.stderr.read()
    assert server.returncode == 0


# ---- the Containerfile and the RPM spec ----

def test_the_containerfile_has_no_fault(tools):
    run(tools / "hadolint", "--ignore", "DL3008", REPO / "packaging/Containerfile")  # versions are those of Debian 12, whatever its newest fixes


def test_the_rpm_has_the_program_with_its_files(builder, packages, tmp_path):
    """Packed from the program that was built already; rpm has a root of its own, in which only files are put."""
    program = builder.tree / "build-package/stripped/tarry"
    spec = (REPO / "packaging/tarry.spec").read_text(encoding="utf-8")
    assert re.search(rf"^Version:\s+{re.escape(VERSION)}$", spec, re.MULTILINE)
    sources = tmp_path / "rpm/SOURCES"
    sources.mkdir(parents=True)
    run("tar", "-C", builder.tree, "--exclude=./build*", f"--transform=s,^\\.,tarry-{VERSION},", "-czf", sources / f"tarry-{VERSION}.tar.gz", ".")
    run("rpmbuild", "-bb", "--nodeps", "--define", f"_topdir {tmp_path}/rpm", "--define", f"tarry_program {program}",
        "--define", f"tarry_build {builder.tree / 'build-package'}", REPO / "packaging/tarry.spec")
    made = {path.name.split(f"-{VERSION}")[0]: path for path in (tmp_path / "rpm/RPMS").rglob("*.rpm")}
    assert set(made) == {"tarry", "libtarry", "libtarry-devel"}
    package = made["tarry"]
    needed = run("rpm", "-qp", "--requires", package).stdout
    assert "libuv.so.1" in needed and "libcurl.so.4" in needed and "libssl.so.3" in needed
    assert run("rpm", "-qp", "--configfiles", package).stdout == "/etc/tarry/tarry.conf\n"
    root = tmp_path / "root"
    run("rpm", "--root", root, "-i", "--nodeps", "--noscripts", "--ignorearch", package)
    assert run(root / "usr/bin/tarry", "version").stdout == f"tarry {VERSION}\n"
    assert (root / "usr/lib/systemd/system/tarry.service").exists() and os.access(root / "usr/share/man/man1/tarry-push.1.gz", os.R_OK)
    run("rpm", "--root", root, "-e", "--nodeps", "--noscripts", "tarry")
    assert not (root / "usr/bin/tarry").exists()

    assert "libtarry.so.1" in run("rpm", "-qp", "--provides", made["libtarry"]).stdout
    assert f"libtarry = {VERSION}-1" in run("rpm", "-qp", "--requires", made["libtarry-devel"]).stdout
    run("rpm", "--root", root, "-i", "--nodeps", "--noscripts", "--ignorearch", made["libtarry"], made["libtarry-devel"])
    [library] = root.rglob("libtarry.so")
    assert library.resolve().name == f"libtarry.so.{VERSION}" and (root / "usr/share/man/man3/tarry_push.3.gz").exists()
    run("cc", root / "usr/share/doc/libtarry-devel/examples/order_timeout.c", f"-I{root}/usr/include", f"-L{library.parent}", "-ltarry", "-o", tmp_path / "orders")
    assert "closed" in run(tmp_path / "orders", "0.1", env={"LD_LIBRARY_PATH": str(library.parent)}).stdout
    run("rpm", "--root", root, "-e", "--nodeps", "--noscripts", "libtarry", "libtarry-devel")
    assert not [path for path in root.rglob("*libtarry*") if path.is_file() and "var/lib" not in str(path) and "rpm" not in str(path.relative_to(root))]
