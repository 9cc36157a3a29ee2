# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Sets of patterns for restic, with a reason for each: what a workstation for deep learning need not back up.

A pattern without a leading slash fits anywhere. `/proc/*` keeps the directory itself, on which a restored system mounts.
"""

from __future__ import annotations

import functools
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import is_within

SETS: dict[str, dict[str, str]] = {
    "system": {
        "/proc/*": "of the kernel",
        "/sys/*": "of the kernel",
        "/dev/*": "made at boot",
        "/run/*": "made at boot",
        "/tmp/*": "does not outlive a boot",  # noqa: S108 - a name
        "/var/tmp/*": "for the time being",  # noqa: S108 - a name
        "/mnt/*": "other file systems, by custom",
        "/media/*": "disks that come and go",
        "/lost+found": "of fsck",
        "/swapfile": "memory",
        "/swap.img": "memory",
        "/var/cache/*": "made again by its programs",
        "/var/lib/apt/lists/*": "fetched again",
        "/var/lib/snapd/cache": "fetched again",
        "/var/lib/lxcfs": "shows the kernel's files",
        "/snap": "mounted images, which are in /var/lib/snapd",
        "/var/crash": "memory of programs that have crashed",
        "/var/lib/systemd/coredump": "memory of programs that have crashed",
    },
    "caches": {
        ".cache": "made again by its programs: pip, uv, Hugging Face, torch, browsers",
        ".local/share/Trash": "thrown away",
        ".Trash-*": "thrown away",
        "__pycache__": "made again by Python",
        ".ipynb_checkpoints": "made again by Jupyter",
        ".ccache": "made again by compilers",
        "thinclient_drives": "drives of the user who is logged in by RDP",
        ".gvfs": "mounted by a desktop session",
    },
    "packages": {
        "anaconda3/pkgs": "packages of conda, fetched again",
        "miniconda3/pkgs": "packages of conda, fetched again",
        "miniforge3/pkgs": "packages of conda, fetched again",
        "mambaforge/pkgs": "packages of conda, fetched again",
        "micromamba/pkgs": "packages of conda, fetched again",
        ".conda/pkgs": "packages of conda, fetched again",
        ".mamba/pkgs": "packages of conda, fetched again",
        ".npm/_cacache": "packages of npm, fetched again",
        ".cargo/registry": "packages of Rust, fetched again",
        "go/pkg/mod": "packages of Go, fetched again",
    },
    "models": {
        "huggingface/hub": "models and data sets of Hugging Face, fetched again (HF_HOME)",
        "huggingface/datasets": "data sets of Hugging Face, fetched again (HF_HOME)",
        "torch/hub/checkpoints": "models of torchvision and torch.hub, fetched again (TORCH_HOME)",
        ".ollama/models": "models of ollama, fetched again",
        ".keras/models": "models of Keras, fetched again",
        ".keras/datasets": "data sets of Keras, fetched again",
        "nltk_data": "data of NLTK, fetched again",
        ".triton": "kernels of Triton, compiled again",
        ".nv/ComputeCache": "kernels of CUDA, compiled again",
        "torch_extensions": "extensions of torch, compiled again",
        "*.nvcudmp": "memory of GPU programs that have crashed",
        "nvidia-bug-report.log*": "made by nvidia-bug-report.sh",
    },
    "docker": {
        "/var/lib/docker/overlay2": "layers of images and containers: pull or build them again",
        "/var/lib/docker/vfs": "layers of images and containers",
        "/var/lib/docker/btrfs": "layers of images and containers",
        "/var/lib/docker/zfs": "layers of images and containers",
        "/var/lib/docker/fuse-overlayfs": "layers of images and containers",
        "/var/lib/docker/image": "the list of the layers, worth nothing without them",
        "/var/lib/docker/containers": "state and logs of containers; what they keep is in volumes",
        "/var/lib/docker/buildkit": "made again by builds",
        "/var/lib/docker/tmp": "for the time being",
        "/var/lib/containerd": "layers of images and containers",
        "/var/lib/containers/storage/overlay": "layers of podman",
        ".local/share/docker/overlay2": "layers of rootless docker",
        ".local/share/docker/fuse-overlayfs": "layers of rootless docker",
        ".local/share/docker/containerd": "layers of rootless docker",
        ".local/share/containers/storage/overlay": "layers of rootless podman",
    },
}


_CHARACTER = r"(?:\\.|[^\\\]-])"
_TOKEN = re.compile(r"(?P<wild>[*?])|\\(?P<escaped>.)|\[(?P<class>(?:\\.|[^\\\]])+)\]|(?P<plain>[^\\\[])", re.DOTALL)


def patterns(sets: t.Iterable[str]) -> list[str]:
    """Return the patterns of some sets."""
    wanted = {*sets}
    return [pattern for name in SETS if name in wanted for pattern in SETS[name]]


def sparing(patterns: t.Iterable[str], paths: t.Sequence[str]) -> list[str]:
    """Return patterns that exclude no path that a job names: what a job names is backed up, whatever is excluded in general.

    The pattern stays, for all other paths; a negated pattern for the path follows it.
    """
    found = []
    for pattern in dict.fromkeys(patterns):
        found.append(pattern)
        found += [f"!{literal(path)}" for path in paths if excluded(path, [pattern])]
    return found


def literal(path: str) -> str:
    """Return a pattern that matches one path only."""
    return "".join(f"\\{letter}" if letter in "\\*?[" else letter for letter in path)


def by_sets_alone(place: str, patterns: t.Sequence[str]) -> bool:
    """Return whether only a set of patterns excludes a directory: no user has named it."""
    general = {pattern for rows in SETS.values() for pattern in rows}
    return excluded(place, patterns) and not excluded(
        place, [pattern for pattern in patterns if pattern not in general]
    )


def excluded(path: str, patterns: t.Iterable[str], roots: t.Iterable[str] = ()) -> bool:
    """Return whether patterns of restic exclude a directory, by its name or one above it. The last match counts.

    restic never enters a directory that is excluded, so a negated pattern is of use only where the directory above is stored.

    :param roots: paths of the job, from which restic goes down; none means from / on.
    """
    rows = list(patterns)
    parts = path.strip("/").split("/")
    aboves = ["/" + "/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
    depths = [0 if root == "/" else root.count("/") - 1 for root in roots if is_within(path, root)]
    return all(
        any(_last_match(aboves[: depth + 1], rows) for depth in range(start, len(aboves))) for start in depths or [0]
    )


def _last_match(aboves: t.Sequence[str], patterns: t.Iterable[str]) -> bool:
    found = False
    for pattern in patterns:
        plain = pattern[1:] if pattern.startswith("!") else pattern
        matches = _matches if plain.startswith("/") else _matches_end
        if any(matches(above, plain) for above in aboves):
            found = plain == pattern
    return found


def _matches(path: str, pattern: str) -> bool:
    """Match by parts, as restic does: * stays within a name, ** spans any number of them."""
    return _parts_match(path.strip("/").split("/"), pattern.strip("/").split("/"))


def _matches_end(path: str, pattern: str) -> bool:
    names = path.strip("/").split("/")
    wanted = pattern.strip("/").split("/")
    return any(_parts_match(names[start:], wanted) for start in range(len(names)))


def _parts_match(names: t.Sequence[str], wanted: t.Sequence[str]) -> bool:
    if not wanted:
        return not names
    if wanted[0] == "**":
        return any(_parts_match(names[start:], wanted[1:]) for start in range(len(names) + 1))
    shape = _shape(wanted[0])
    return bool(names and shape and shape.fullmatch(names[0])) and _parts_match(names[1:], wanted[1:])


def unreadable(pattern: str) -> bool:
    """Return whether restic does not read a pattern: it ends then, and older ones exclude nothing."""
    parts = pattern.removeprefix("!").strip("/").split("/")
    return any(part != "**" and _shape(part) is None for part in parts)


@functools.cache
def _shape(part: str) -> re.Pattern[str] | None:
    """Return the expression of a name in a pattern, by the rules of Go's filepath.Match; None for one that Go does not read.

    A class is negated by ``^``, and ``!`` is a character like any other.
    """
    found, end = "", 0
    while end < len(part):
        token = _TOKEN.match(part, end)
        if token is None:
            return None
        end = token.end()
        if token["wild"]:
            found += {"*": ".*", "?": "."}[token["wild"]]
        elif token["class"]:
            negated = token["class"].startswith("^")
            ranges = token["class"][negated:]
            if not re.fullmatch(rf"(?:{_CHARACTER}(?:-{_CHARACTER})?)+", ranges):
                return None
            pairs = re.findall(rf"({_CHARACTER})(?:-({_CHARACTER}))?", ranges)
            ends = [(first[-1], (last or first)[-1]) for first, last in pairs]
            # To Go, a range from a later to an earlier character is empty.
            inside = "".join(f"{re.escape(first)}-{re.escape(last)}" for first, last in ends if first <= last)
            found += f"[{'^' * negated}{inside}]" if inside else "." if negated else "(?!)"
        else:
            found += re.escape(token["escaped"] or token["plain"])
    return re.compile(found, re.DOTALL)
