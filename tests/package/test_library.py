"""The library's packages, as a programmer meets them: installed, built with, upgraded under a program that stays, removed, purged.

In this order, in a small Debian that starts nothing: each step finds what the one before it left."""

import re
import shutil

import pytest
from conftest import REPO
from machine import run, unpack_base

[VERSION] = re.findall(r"^project\(tarry VERSION ([0-9.]+)", (REPO / "CMakeLists.txt").read_text(encoding="utf-8"), re.MULTILINE)
HELLO = re.search(r"```c\n(#include.*?)```", (REPO / "docs/library.md").read_text(encoding="utf-8"), re.DOTALL)[1]
CMAKE = """cmake_minimum_required(VERSION 3.25)
project(hello LANGUAGES C)
find_package(tarry {} REQUIRED)
foreach(KIND tarry static)
    add_executable(hello_${{KIND}} hello.c)
    target_link_libraries(hello_${{KIND}} PRIVATE tarry::${{KIND}})
endforeach()
""".format(VERSION.rsplit(".", 1)[0])
TOOLS = "gcc libc6-dev cmake make pkg-config man-db"


class Small:
    """A Debian in a directory: commands run in it, nothing is started."""

    def __init__(self, root):
        self.root = root

    def __call__(self, command, check=True, user=None):
        """A line for the shell of root, or of an ordinary user."""
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--inh-caps=-all"] if user else []
        return run("unshare", "--mount", "--propagation", "private", "chroot", self.root, "env", "-i", "HOME=/tmp", "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                   "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C.UTF-8", *as_user, "bash", "-euo", "pipefail", "-c", command, check=check, seconds=600)


@pytest.fixture(scope="module")
def small(directory, packages, libraries):
    cache = REPO / "build-package"
    cache.mkdir(exist_ok=True)
    root = directory / "small"
    unpack_base(root, packages[0], cache)
    for path in libraries:
        shutil.copy(path, root / "root" / f"{path.name.split('_')[0]}-{path.name.split('-')[-1].split('_')[0]}.deb")
    for number in (1, 2):
        assert (root / f"root/libtarry1-{number}.deb").exists() and (root / f"root/libtarry-dev-{number}.deb").exists()
    (root / "dev/null").unlink(missing_ok=True)
    run("mknod", "-m", "666", root / "dev/null", "c", "1", "3")
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    debian = Small(root)
    debian(f"apt-get update -q && apt-get install -q -y --no-install-recommends -o Dpkg::Options::=--force-unsafe-io {TOOLS}")
    debian("install -d -o nobody /home/hello")
    (root / "home/hello/hello.c").write_text(HELLO, encoding="utf-8")
    (root / "home/hello/CMakeLists.txt").write_text(CMAKE, encoding="utf-8")
    return debian


def test_lintian_finds_neither_errors_nor_warnings(builder, libraries):
    done = builder("lintian", "--fail-on", "error,warning", *libraries[::2])
    assert not re.search("^[EW]:", done.stdout, re.MULTILINE), done.stdout


def test_the_library_depends_only_on_linked_libraries(libraries):
    by_name = {path.name.split("_")[0]: path for path in libraries[::2]}
    names = re.findall(r"([a-z0-9.+-]+) \(", run("dpkg-deb", "-f", by_name["libtarry1"], "Depends").stdout)
    assert "libc6" in names and set(names) <= {"libc6", "libuv1", "libxxhash0"}
    assert run("dpkg-deb", "-f", by_name["libtarry-dev"], "Depends").stdout == f"libtarry1 (= {VERSION}-1), libuv1-dev, libxxhash-dev\n"


def test_memcheck_finds_nothing_in_the_shipped_library(libraries, tmp_path):
    for path in libraries[::2]:
        run("dpkg-deb", "-x", path, tmp_path)
    [archive] = tmp_path.rglob("libtarry.a")
    for name in ("c89", "storm"):
        run("cc", "-g", REPO / f"tests/library/{name}.c", f"-I{tmp_path}/usr/include", archive, "-luv", "-lxxhash", "-pthread", "-o", tmp_path / name)
    assert "2 programs" in run(REPO / "tests/library/memcheck", tmp_path / "c89", "--", "--forks", tmp_path / "storm", "100").stdout


def test_an_ordinary_user_builds_with_pkg_config_and_with_cmake(small):
    small("apt-get install -q -y --no-install-recommends /root/libtarry1-1.deb /root/libtarry-dev-1.deb")
    small("cd /home/hello && cc -Wall -Werror hello.c $(pkg-config --cflags --libs tarry) -o hello && ./hello | grep -x hello", user=65534)
    small("cd /home/hello && cc hello.c -o hello_a -l:libtarry.a $(pkg-config --libs-only-l --static tarry | sed 's/-ltarry//') && ./hello_a | grep -x hello", user=65534)
    small("cd /home/hello && cmake -S . -B out >/dev/null && cmake --build out >/dev/null && out/hello_tarry | grep -x hello && out/hello_static | grep -x hello",
          user=65534)
    answer = small("cc /usr/share/doc/libtarry-dev/examples/order_timeout.c -ltarry -o /tmp/orders && /tmp/orders 0.1", user=65534).stdout
    assert "order 1002 closed" in answer


def test_pages_are_found_by_man(small):
    assert "puts jobs into the queue" in small("man -P cat 3 tarry_push || zcat /usr/share/man/man3/tarry_push.3.gz").stdout
    assert small("ls /usr/share/man/man3/tarry*.3.gz | wc -l").stdout.strip() >= "50"


def test_a_program_runs_on_after_an_upgrade(small):
    small("apt-get install -q -y --no-install-recommends /root/libtarry1-2.deb /root/libtarry-dev-2.deb")
    assert small("dpkg-query -W -f '${Version}' libtarry1").stdout == f"{VERSION}-2"
    small("/home/hello/hello | grep -x hello", user=65534)


def test_nothing_is_left_after_a_purge(small):
    small("apt-get purge -q -y libtarry1 libtarry-dev")
    assert small("find / -xdev \\( -name '*libtarry*' -o -name tarry.h -o -name 'tarry*.3.gz' -o -name tarry.pc \\) -not -path '/root/*' -not -path '/home/*' "
                 "-not -path '/var/cache/*'").stdout == ""
    assert "libtarry.so.1" in small("/home/hello/hello", check=False, user=65534).stderr
