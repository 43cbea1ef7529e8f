"""The compiled part, and the libuv that it needs for directories. `scripts/bindings` builds libtarry.a first; the rest is in pyproject.toml."""

import pathlib
import shutil
import subprocess

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithLibuv(build_py):
    """The module finds it beside itself, so that the wheel needs no package of the system."""

    def run(self) -> None:
        super().run()
        folder = subprocess.run(["pkg-config", "--variable=libdir", "libuv"], check=True, capture_output=True, text=True).stdout.strip()
        shutil.copy(pathlib.Path(folder) / "libuv.so.1", pathlib.Path(self.build_lib) / "libtarry" / "libuv.so.1")


setup(
    cffi_modules=["build_binding.py:ffi"],
    cmdclass={"build_py": BuildWithLibuv},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
