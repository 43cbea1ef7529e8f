"""The compiled part. `scripts/bindings` builds libtarry.a first; the rest is in pyproject.toml."""

from setuptools import setup

setup(cffi_modules=["build_binding.py:ffi"], options={"bdist_wheel": {"py_limited_api": "cp311"}})
