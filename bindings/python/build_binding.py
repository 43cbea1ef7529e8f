"""Declares to cffi what include/tarry.h and binding.h declare, and builds the module of both and libtarry.a. Read by setup.py."""

import os
import pathlib
import re

import cffi

HERE = pathlib.Path(__file__).resolve().parent
REPO = HERE.parent.parent
LIBRARY = pathlib.Path(os.environ.get("TARRY_LIBRARY_DIR") or REPO / "build")

# Of tarry.h these take a handle that must be open; the module calls what binding.h has in their place.
OWN_WORLD = re.compile(r"\btarry_(strerror|code_name|version|job_\w+)\(")


def declarations(header: str) -> str:
    """The types of tarry.h, and those of its functions that need no queue."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    text = re.sub(r"(?m)^[ \t]*#(?:.*\\\n)*.*$", "", text)
    text = re.sub(r'extern "C" \{|\A\s*\}|\n\}\s*\Z', "", text)
    statements = re.findall(r"(?:typedef[^;{]*;|(?:enum|struct) ?\w* ?\{.*?\};|[^;{}]*;)", text, flags=re.S)
    return "\n".join(one for one in statements if "(" not in one or "{" in one or "typedef" in one or OWN_WORLD.search(one))


def functions(header: str) -> str:
    """The declarations of binding.h."""
    return "\n".join(f"{one};" for one in re.findall(r"^static (\w+ \*?binding_\w+\([^)]*\))\n\{", header, flags=re.M))


ffi = cffi.FFI()
binding = (HERE / "binding.h").read_text()
ffi.cdef(declarations((REPO / "include" / "tarry.h").read_text()))
ffi.cdef("struct handle;\n" + functions(binding))
ffi.cdef('extern "Python" void on_done(void *owner, const struct tarry_reply *reply);')
ffi.set_source(
    "libtarry._binding",
    '#include "binding.h"\n',
    include_dirs=[str(REPO / "include"), str(HERE), str(HERE.parent / "common")],
    extra_objects=[str(LIBRARY / "libtarry.a")],
    extra_compile_args=["-std=gnu17", "-Wno-unused-function"],
    extra_link_args=["-pthread", "-luv", "-l:libxxhash.a", "-Wl,-rpath,$ORIGIN", "-Wl,--exclude-libs,ALL", "-Wl,--strip-debug"],
)
