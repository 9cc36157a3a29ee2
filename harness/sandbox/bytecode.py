"""Bytecode of Ansible's modules, kept on sandbox hosts.

Ansible sends a module and its libraries as a zip archive, and the host compiles all of them in every run: 0.15 of the 0.4 seconds of
processor time that a module takes (measured). With these files a host compiles a source once, and all hosts share the results.
"""

from __future__ import annotations

import contextlib
import time

from harness.sandbox.lab import CACHE

KEPT = CACHE / "bytecode"
ON_HOST = "/var/cache/sandbox-bytecode"
KEPT_S = 7 * 86400
PACKAGES = "/usr/lib/python3/dist-packages"
HOOK = f"""\
import _imp, marshal, os, sys, zipimport

FOLDER = "{ON_HOST}/" + sys.implementation.cache_tag
compile_source = zipimport._compile_source

def kept(path, source):
    name = f"{{FOLDER}}/{{_imp.source_hash(0, source).hex()}}-{{len(source)}}"
    try:
        with open(name, "rb") as file:
            code = marshal.loads(file.read())
    except (OSError, EOFError, ValueError, TypeError):
        code = compile_source(path, source)
        if os.geteuid() == 0:
            keep(name, marshal.dumps(code))
    _imp._fix_co_filename(code, path)
    return code

def keep(name, content):
    unfinished = name + os.urandom(8).hex()
    try:
        os.makedirs(FOLDER, exist_ok=True)
        with open(unfinished, "xb") as file:
            file.write(content)
        os.replace(unfinished, name)
    except OSError:
        pass

zipimport._compile_source = kept
"""
FILES = {f"{PACKAGES}/sandbox_bytecode.py": HOOK, f"{PACKAGES}/sandbox_bytecode.pth": "import sandbox_bytecode\n"}


def volume() -> dict[str, dict[str, str]]:
    """Return the volume with the kept bytecode, without what is older than a week: sources change."""
    KEPT.mkdir(parents=True, exist_ok=True)
    for file in KEPT.glob("*/*"):
        with contextlib.suppress(FileNotFoundError):  # another sandbox removes them too
            if time.time() - file.stat().st_mtime > KEPT_S:
                file.unlink()
    return {str(KEPT): {"bind": ON_HOST, "mode": "rw"}}
