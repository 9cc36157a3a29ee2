# SPDX-License-Identifier: GPL-3.0-or-later
"""What keeps root safe in all plugins and programs (docs/security.md); each rule is shown to find its flaw.

Paths have a page of their own, test_paths.py.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.contract.sources import (
    CHECKOUT,
    PYTHON,
    SPECS,
    YAML,
    calls,
    commands,
    dotted,
    flaws,
    literal,
    literal_specs,
    nodes,
)

SECRET = re.compile(
    r"(password|passwd|passphrase|secret|token|nt_hash|private_key|api_key|access_key|psk|credential)s?$"
)
# Files that download -> what their content is checked against before it is installed.
DOWNLOADS = {
    "download.py": "bounds size and time, for the others",
    "cuda_repository.py": "the SHA-256 of NVIDIA's keyring package",
    "gpu_toolkit_facts.py": "an index of versions: read, never installed",
    "mirror_verify.py": "the heads of pages: whether they come, nothing else",
    "release_run.py": "the SHA-256 of the archive",
    "repository_key.py": "the full fingerprints of the key",
}

# Files that connect to a service, and do not import `port_owner` -> why what answers is that service: a port above 1023 belongs to the
# user who binds it first.
CONNECTIONS = {
    "_docker/api.py": "a socket in a directory of root",
    "_ssh/facts.py": "reads a banner from sshd's own port, by the pid of the listener",
    "_xrdp/probe.py": "its callers ask port_owner",
}
CONNECTS = re.compile(r"create_connection\(|HTTPS?Connection\(|\"s_client\"|\.connect\(")

# Where `make_directories` is.
DIRECTORIES = "plugins/module_utils/_core/root_directories.py"

# ---- Secrets -------------------------------------------------------------------------------------------------------------


def undeclared_secrets(options: Any, where: str = "") -> Iterator[str]:
    """Yield options, suboptions too, whose name says that they hold a secret and that do not say `no_log`."""
    for name, option in options.items() if isinstance(options, dict) else ():
        if not isinstance(option, dict):
            continue
        is_text = option.get("type", "str") in ("str", "raw", "dict") or option.get("elements") in (
            "str",
            "raw",
            "dict",
        )
        holds = is_text and "choices" not in option and not option.get("options")
        if SECRET.search(name) and holds and option.get("no_log") not in (True, "True"):
            yield f"{where}{name}"
        yield from undeclared_secrets(option.get("options"), f"{where}{name}.")


def role_specs(text: str) -> Iterator[str]:
    for entry in yaml.safe_load(text)["argument_specs"].values():
        yield from undeclared_secrets(entry.get("options"))


def module_specs(text: str) -> Iterator[str]:
    return undeclared_secrets(literal_specs(text))


def test_secret_options_are_no_log() -> None:
    assert flaws(role_specs, SPECS) == {}
    assert flaws(module_specs, PYTHON) == {}


# ---- Programs ------------------------------------------------------------------------------------------------------------

PYTHON_COMMAND = re.compile(r"(^|/)python[\d.]*$|^sys\.executable$|(python|interpreter)\w*\)?$|\Wpython3?'\)$")
PYTHON_LINE = re.compile(r"\bpython3?[\d.]*(?:\s+-(?!\w*I)\w+(?:\s+ignore)?)*\s+-(?!\w*I)\w*[cm]\b")


def python_without_isolation(text: str) -> Iterator[str]:
    """Yield commands that start Python with -c or -m and not with -I: it would import from the working directory."""
    for node, elements in commands(text):
        arguments = [literal(element) or ast.unparse(element) for element in elements]
        for number, word in enumerate(arguments):
            options = list(options_of(arguments[number + 1 :]))
            starts = PYTHON_COMMAND.search(word) and any(each[-1] in "cm" for each in options)
            if starts and not any("I" in each for each in options):
                yield f"line {node.lineno}: {' '.join(arguments[number:])[:80]}"
    for node, _name in calls(text):
        if any(PYTHON_LINE.search(literal(argument)) for argument in node.args):
            yield f"line {node.lineno}: a command in one string"


def options_of(arguments: list[str]) -> Iterator[str]:
    """Yield the options before the first other word; -W and -X have a value."""
    rest = iter(arguments)
    for word in rest:
        if not word.startswith("-"):
            return
        yield word
        if word in ("-W", "-X"):
            next(rest, "")


def python_in_yaml(text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), start=1):
        if PYTHON_LINE.search(line):
            yield f"line {number}: {line.strip()}"


def test_python_is_started_isolated() -> None:
    assert flaws(python_without_isolation, PYTHON) == {}
    assert flaws(python_in_yaml, YAML) == {}


# ---- Downloads -----------------------------------------------------------------------------------------------------------


DOWNLOADING = ("open_url", "urlopen", "fetch_url", "urlretrieve", "opened_url", "read_url")


def downloads(text: str) -> bool:
    return any(
        isinstance(node, ast.Call) and dotted(node.func).rpartition(".")[2] in DOWNLOADING for node in nodes(text)
    )


def test_every_download_is_checked() -> None:
    plugins = [path for path in PYTHON if "plugins" in path.parts and downloads(path.read_text())]
    assert {path.name for path in plugins} == set(DOWNLOADS)


def unbounded(text: str) -> list[str]:
    return re.findall(r"\b(?:open_url|urlopen|fetch_url|urlretrieve)\(", text)


def test_every_download_has_an_end() -> None:
    # fetch_url alone returns no error for a status; its answers have no body.
    assert set(flaws(unbounded, PYTHON)) == {
        "plugins/module_utils/_core/download.py",
        "plugins/module_utils/_apt/mirror_verify.py",
    }


TASK_DOWNLOADS = re.compile(
    r"\bget_url\b|\bcurl .*(?:-\w*[oO]\b|--output|--remote-name|\|)|\bwget\b|\bbuiltin\.(?:git|pip|subversion)\b"
    r"|\bremote_src: *true|\bdeb: *[\"']?https?:|\buri:(?:\n +.*)*\bdest:"
)


def task_downloads(text: str) -> list[str]:
    return re.findall(TASK_DOWNLOADS, text)


def test_no_task_downloads() -> None:
    assert flaws(task_downloads, YAML) == {}


# ---- What tests and checkouts install --------------------------------------------------------------------------------

WORKFLOWS = sorted((CHECKOUT / ".github/workflows").glob("*.yml"))
SCRIPTS = [CHECKOUT / ".ci/run", *sorted((CHECKOUT / "script").iterdir()), *sorted((CHECKOUT / "docs").glob("*.md"))]


def movable_actions(text: str) -> Iterator[str]:
    """Yield actions that a tag or a branch names: their owner can put other code there."""
    for action in re.findall(r"\buses: *(\S+)", text):
        if not re.search(r"@[0-9a-f]{40}$", action) and not action.startswith("./"):
            yield action


def without_hashes(text: str) -> Iterator[str]:
    """Yield commands of pip that install what no hash of ours names. An image of a user's own (`RUN`) is the user's."""
    for line in re.sub(r"\\\n *", " ", text).splitlines():
        if re.search(r"\bpip3?\b.* install\b", line) and not line.startswith("RUN ") and "--require-hashes" not in line:
            yield line.strip()


def test_everything_installed_is_pinned() -> None:
    assert flaws(movable_actions, WORKFLOWS) == {}
    assert flaws(without_hashes, [*WORKFLOWS, *SCRIPTS]) == {}


def test_every_ansible_core_of_the_matrix_is_locked() -> None:
    pins = {
        path.stem.removeprefix("core-"): re.findall(r"^ansible-core==(\S+)", path.read_text(), re.MULTILINE)
        for path in (CHECKOUT / "requirements").glob("core-*.txt")
    }
    units = yaml.safe_load((CHECKOUT / ".github/workflows/test.yml").read_text())["jobs"]["units"]
    assert sorted(pins) == units["strategy"]["matrix"]["core"]
    assert {series: [pin.rpartition(".")[0] for pin in found] for series, found in pins.items()} == {
        series: [series] for series in pins
    }
    locked = re.findall(r"^ansible-core==(\S+)", (CHECKOUT / "requirements/dev.txt").read_text(), re.MULTILINE)
    assert set(locked) <= {pin for found in pins.values() for pin in found}


# ---- Directories ---------------------------------------------------------------------------------------------------------


def modes_under_a_umask(text: str) -> Iterator[str]:
    """Yield directories that others are to use, and that root's umask may close to them."""
    for node, name in calls(text):
        if name in ("os.makedirs", "os.mkdir"):
            given = [*node.args[1:2], *(keyword.value for keyword in node.keywords if keyword.arg == "mode")]
            if any(
                isinstance(mode, ast.Constant) and isinstance(mode.value, int) and mode.value & 0o077 for mode in given
            ):
                yield f"line {node.lineno}: use make_directories"


def test_directories_for_others_have_their_mode() -> None:
    assert flaws(modes_under_a_umask, (path for path in PYTHON if not str(path).endswith(DIRECTORIES))) == {}


# ---- The rules -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        (undeclared_secrets, {"x_token": {"type": "str", "no_log": True}}, {"x_token": {"type": "str"}}),
        (undeclared_secrets, {"x_password": {"type": "bool"}}, {"x_password": {}}),
        (undeclared_secrets, {}, {"users": {"type": "list", "options": {"password": {"type": "str"}}}}),
        (
            module_specs,
            'x = {"token": {"type": "str", "no_log": True}}',
            'x = {"token": {"type": "str"}}',
        ),
        (python_without_isolation, 'run(["python3", "-I", "-c", x])', 'run(["python3", "-c", x])'),
        (python_without_isolation, 'run([sys.executable, "-IS", "-m", "venv"])', 'run([sys.executable, "-m", "venv"])'),
        (python_without_isolation, 'run(["python3", path, "-m"])', 'run(["/usr/bin/python3", "-Sc", x])'),
        (python_without_isolation, 'run([join(x, "python3"), "-I", "-m", "pip"])', 'run([join(x, "python3"), "-m", "pip"])'),
        (python_without_isolation, 'run([python, "-I", "-c", x])', 'run([interpreter, "-c", x])'),
        (python_without_isolation, 'run(["sh", "-c", x])', 'run(["python3", "-W", "ignore", "-m", "pip"])'),
        (python_without_isolation, 'run("python3 -I -m pip")', 'run("python3 -m pip")'),
        (python_in_yaml, "command: python3 -I -W ignore -m pip", "command: python3 -u -m pip"),
        (undeclared_secrets, {"x_tokens": {"type": "int"}}, {"x_tokens": {"type": "list", "elements": "str"}}),
        (undeclared_secrets, {"x_api_key": {"no_log": True}}, {"x_api_key": {"type": "str", "no_log": False}}),
        (module_specs, 'x = {"psk": y}', 'x = {"psk": {"required": True}}'),
        (task_downloads, "command: curl --head x", "shell: curl https://x | sh"),
        (task_downloads, "unarchive: {src: x}", "unarchive: {src: https://x, remote_src: true}"),
        (python_in_yaml, "command: python3 -I -m pip", "command: python3 -m pip"),
        (unbounded, "read_url(x, 9, 9)", "open_url(x)"),
        (movable_actions, f"- uses: actions/checkout@{'a1' * 20}  # v5", "- uses: actions/checkout@v5"),
        (without_hashes, "RUN pip install x", 'run: .venv/bin/pip install "ansible-core~=2.19"'),
        (without_hashes, "-m pip install \\\n  --require-hashes -r x", "-m pip install --upgrade \\\n  x"),
        (task_downloads, "x.repository_key:", "ansible.builtin.get_url:"),
        (modes_under_a_umask, "os.makedirs(x, mode=0o700)", "os.makedirs(x, mode=0o755, exist_ok=True)"),
        (modes_under_a_umask, "os.mkdir(x, 0o700)", "from os import mkdir\nmkdir(x, 0o750)"),
    ],
)  # fmt: skip
def test_rule_finds_its_flaw(rule: Any, good: Any, bad: Any) -> None:
    assert list(rule(good)) == []
    assert list(rule(bad)) != []


def test_a_download_is_found() -> None:
    assert downloads("with open_url(x) as y: ...")
    assert not downloads("open(x)")


# ---- Local ports ---------------------------------------------------------------------------------------------------------


def test_who_listens_is_known_before_a_connection() -> None:
    """Code that connects to a service of this machine asks `port_owner` first, or is listed with the reason why not."""
    found = {
        "/".join(path.parts[-2:])
        for path in PYTHON
        if "module_utils" in path.parts
        and CONNECTS.search(path.read_text())
        and not re.search(r"^from .*\bport_owner\b", path.read_text(), re.MULTILINE)
    }
    assert found == set(CONNECTIONS)
