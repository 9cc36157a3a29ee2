# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Show the steps of a set of files as a diff, without secrets and without the text of programs."""

from __future__ import annotations

import os

from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_plan import State, Step
from ansible_collections.rigwright.workstation.plugins.module_utils._core.redact import without_secrets
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Diff
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown


def diff(step: Step, version: str) -> Diff:
    before, after = _described(step.before), _described(step.after)
    same = step.before.digest == step.after.digest
    return {
        "before_header": f"{step.path} ({before})",
        "after_header": f"{step.path} ({after})",
        # Where only mode or owner differ, they are the diff.
        "before": f"{before}\n" if same else _shown(step, step.before, "the content before"),
        "after": f"{after}\n" if same else _shown(step, step.after, "the content after", version),
    }


def _shown(step: Step, state: State, label: str, version: str = "") -> str:
    if state.content is None:
        return ""
    if step.secret:
        return f"({label} is secret)\n"
    text = state.content.decode(errors="replace")
    if not is_program(step.path, text):
        return shown(without_secrets(text), keep="\n\t")
    of = f" of rigwright.workstation {version}" if version else ""
    return f"program {os.path.basename(step.path)}{of}, {len(state.content)} bytes, sha256 {state.digest}\n"


def is_program(path: str, text: str) -> bool:
    """Return True for code, whose text nobody wants to read in a diff. Scripts below /etc are configuration."""
    return not path.startswith("/etc/") and (path.endswith((".py", ".pyz")) or text.startswith("#!"))


def _described(state: State) -> str:
    if state.mode is None:
        return state.kind
    return f"{state.kind}, mode {state.mode:04o}, owner {state.uid}:{state.gid}"
