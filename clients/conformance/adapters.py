"""How each client's adapter is started, and what it needs to be there."""

import pathlib
import shutil

CLIENTS = pathlib.Path(__file__).resolve().parents[1]

# name: (folder, command, programs it needs)
ADAPTERS = {
    "python": ("python", ["python3", "conformance.py"], ["python3"]),
    "python-asyncio": ("python", ["python3", "conformance.py", "--asyncio"], ["python3"]),
    "node": ("node", ["node", "conformance.mjs"], ["node"]),
    # faketime's repair of monotonic waits makes each timed wait of a JVM return immediately: dozens of threads that spin
    "java": ("java", ["env", "FAKETIME_FORCE_MONOTONIC_FIX=0", "java", "-cp", "target/classes:target/test-classes", "io.tarry.Conformance"], ["java", "mvn"]),
    "php": ("php", ["php", "conformance.php"], ["php"]),
    "go": ("go", ["./build/conformance"], ["go"]),
    "rust": ("rust", ["target/debug/examples/conformance"], ["cargo"]),
    "ruby": ("ruby", ["ruby", "-w", "conformance.rb"], ["ruby"]),
}
# Builds of the adapters in compiled languages.
BUILD = {
    "node": ["bash", "-c", "npm install --silent --no-audit --no-fund && npm run --silent build"],
    "java": ["mvn", "-q", "-B", "test-compile"],
    "go": ["go", "build", "-o", "build/conformance", "./cmd/conformance"],
    "rust": ["cargo", "build", "--quiet", "--locked", "--features", "gzip", "--example", "conformance"],
}


def command(name):
    return ADAPTERS[name][1]


def folder(name):
    return CLIENTS / ADAPTERS[name][0]


def lacking(name):
    """The programs that are not here."""
    return [program for program in ADAPTERS[name][2] if not shutil.which(program)]
