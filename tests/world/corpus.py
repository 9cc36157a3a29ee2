"""Read the cases of tests/world."""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
HOSTS = {
    "@DEBIAN@": "debian.example.org",
    "@UBUNTU@": "ubuntu.example.org",
    "@PYPI@": "pypi.example.org",
    "@CONDA@": "conda.example.org",
}


@dataclasses.dataclass(frozen=True)
class Refused:
    """A refusal: as the answer its whole text, as the expectation a part of it."""

    text: str


@dataclasses.dataclass(frozen=True)
class Case:
    """One input of real life, and the answer that is right."""

    domain: str
    name: str
    role: str
    source: str
    call: str
    input: dict[str, Any]
    expect: Any
    first_try: bool
    review: bool = False

    def ask(self) -> Any:
        """Return the answer of the code, or the refusal that it raised: one of the exceptions `REFUSALS` of the adapter."""
        adapter = importlib.import_module(f"tests.world.{self.domain}.adapter")
        refusals: tuple[type[Exception], ...] = getattr(adapter, "REFUSALS", ())
        try:
            return getattr(adapter, self.call)(**self.input)
        except refusals as problem:
            return Refused(str(problem))


class _Loader(yaml.SafeLoader):
    folder: Path


def _filled(text: str) -> str:
    return re.sub("|".join(HOSTS), lambda match: HOSTS[match[0]], text)


def _file(loader: _Loader, node: yaml.ScalarNode) -> str:
    return _filled((loader.folder / "files" / node.value).read_text(encoding="utf-8"))


def _bytes(loader: _Loader, node: yaml.ScalarNode) -> bytes:
    return (loader.folder / "files" / node.value).read_bytes()


def _refused(_loader: _Loader, node: yaml.ScalarNode) -> Refused:
    return Refused(node.value)


_Loader.add_constructor("!file", _file)
_Loader.add_constructor("!bytes", _bytes)
_Loader.add_constructor("!refused", _refused)


def domains() -> list[str]:
    return sorted(path.name for path in HERE.iterdir() if (path / "adapter.py").exists())


def cases(domain: str) -> Iterator[Case]:
    """Yield the cases of a domain, in the order of its files."""
    for path in sorted((HERE / domain).glob("*.yml")):
        loader = _Loader(_filled(path.read_text(encoding="utf-8")))
        loader.folder = HERE / domain
        yield from (Case(domain=domain, **entry) for entry in loader.get_single_data())
