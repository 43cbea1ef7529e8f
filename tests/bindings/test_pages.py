"""
The examples of the pages on the bindings are compiled and run with the wheel and the jar that scripts/bindings built, and print the documented output.

Python's blocks run in order, each with a queue and what the page takes for granted; of Java's each is a method of one class, and those run that wait for
nothing.
"""

import asyncio
import contextlib
import datetime
import io
import os
import pathlib
import re
import subprocess
import sys

import pytest

REPO = pathlib.Path(__file__).resolve().parent.parent.parent
OUT = REPO / "build-bindings"
LINES = """order 1001 placed
order 1002 placed
order 1001 paid, nothing to close
a minute later
order 1002 closed: not paid in time
"""


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """An installation of the wheel."""
    (wheel,) = (OUT / "python").glob("libtarry-*.whl")
    place = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check", "--root-user-action=ignore"]
    subprocess.run([*pip, "--target", str(place), str(wheel)], check=True)
    return place


@pytest.fixture(scope="session")
def jar():
    (found,) = (OUT / "java").glob("libtarry-*.jar")
    return found


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", (REPO / "docs" / page).read_text(), re.S | re.M)


def run(command, **more):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120, check=False, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_library_page_shows_the_tested_programs_of_the_bindings():
    assert blocks("library.md", "python")[0] == blocks("bindings-python.md", "python")[0]
    assert blocks("library.md", "java")[0] == blocks("bindings-java.md", "java")[0]


def test_the_first_program_in_python(site):
    assert run([sys.executable, "-c", blocks("library.md", "python")[0]], env={**os.environ, "PYTHONPATH": str(site)}) == "hello\n"


def test_the_first_program_in_java(jar, tmp_path):
    (tmp_path / "Hello.java").write_text(blocks("library.md", "java")[0])
    assert run(["java", "-cp", jar, tmp_path / "Hello.java"]) == "hello\n"


def test_the_example_in_python(site):
    assert run([sys.executable, REPO / "examples/library/order_timeout.py"], env={**os.environ, "PYTHONPATH": str(site)}) == LINES


def test_the_example_in_java(jar):
    assert run(["java", "-cp", jar, REPO / "examples/library/OrderTimeout.java"]) == LINES


def test_every_block_in_python(site, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(site))
    import libtarry

    closed, beaten, reports = [], [], []

    async def handle(job):
        beaten.append(job.id)

    with libtarry.open() as queue, contextlib.redirect_stdout(io.StringIO()):
        names = {"libtarry": libtarry, "queue": queue, "datetime": datetime, "close_order": closed.append, "handle": handle, "ShopIsDown": OSError, "make_report": lambda: reports.append(1)}
        for block in blocks("bindings-python.md", "python")[1:]:
            if "reschedule" in block:
                queue.push("orders", id="17")
            if "take_each(\"orders\", wait=0)" in block:
                queue.purge("orders")
                queue.push("orders", 17)
            namespace = {**names}
            exec(compile(block.replace("/tmp/orders-queue", str(tmp_path / "orders")), "the page", "exec"), namespace)
            if "worker" in namespace:

                async def work(worker):
                    queue.push("orders", id="async")
                    task = asyncio.create_task(worker(queue))
                    while not beaten:
                        await asyncio.sleep(0.001)
                    task.cancel()

                asyncio.run(work(namespace["worker"]))
    assert (closed, beaten, reports) == ([17], ["async"], [1])


JAVA = """
import io.tarry.queue.*;
import java.io.IOException;
import java.time.*;
import java.util.*;
import java.util.concurrent.*;

public class Page {
    interface Reminder extends Delayed {}
    static void closeOrder(String text) throws IOException {}
%s
    public static void main(String[] arguments) throws Exception {
        try (TarryQueue queue = TarryQueue.open()) {
            queue.push(new Push("orders").id("17"));
%s
        }
    }
}
"""


def test_every_block_in_java(jar, tmp_path):
    found = [block for block in blocks("bindings-java.md", "java")[1:] if "newTimeout" not in block]  # Netty's
    assert len(found) >= 6
    methods, calls = [], []
    for number, block in enumerate(found):
        owns = "queue =" in block
        given = ("" if owns else "TarryQueue queue, ") + "String id, String text, String order, Duration delay"
        if "reminder" in block and "Reminder" in block and "put(" in block:
            given += ", Reminder reminder"
        methods.append(f"    static void block{number}({given}) throws Exception {{\n{block}    }}\n")
        if not re.search(r"take\(|pop\(|reminder\)", block):
            calls.append(f"            block{number}({'' if owns else 'queue, '}\"1\", \"a\", \"2\", Duration.ofSeconds(1));")
    assert calls
    (tmp_path / "Page.java").write_text(JAVA % ("".join(methods), "\n".join(calls)))
    run(["java", "-cp", jar, tmp_path / "Page.java"])
