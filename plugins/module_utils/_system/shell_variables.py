# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read which variables a script of /etc/profile.d sets, without running it. Pure."""

from __future__ import annotations

import re
import typing as t

_DOUBLE = r"""(?:\\.|\$\((?:[^()"]|"[^"]*")*\)|\$(?!\()|[^"\\$])*"""
_WORD = rf"""(?:\\.|'[^']*'|"{_DOUBLE}"|`[^`]*`|\$\((?:[^()]|\([^()]*\))*\)|\$(?!\()|[^\s;&|()'"`\\$])+"""
_TOKEN = re.compile(rf"(?<!\S)#[^\n]*|(;;|&&|\|\||[;&|()\n])|({_WORD}|\S)", re.DOTALL)
_HERE = re.compile(r"(?<!<)<<-?[ \t]*(['\"]?)(\w+)\1([^\n]*\n)(?:[^\n]*\n)*?\t*\2$", re.MULTILINE)
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_KEYWORDS = ("if", "elif", "then", "else", "fi", "while", "until", "do", "done", "{", "}", "!", "time")
_DECLARATIONS = ("export", "declare", "typeset", "readonly")


class Guard:
    """A condition, and whether what comes after it runs where it is met, or where it is not."""

    def __init__(self, text: str = "", met: bool = True) -> None:
        self.text, self.met, self.complete = text, met, bool(text)

    def asks_for(self, name: str) -> bool:
        """Return whether it holds where the variable is not set: what is set then is a default."""
        found = re.search(rf"(?:(-[nz])\s+[\"']?)?\$\{{?{name}\b|(-v) {name}\b", self.text)
        tests = {"-z": self.met, "-n": not self.met, "-v": not self.met}
        return found is not None and tests.get(found[1] or found[2], True)


def assignments(text: str) -> t.Iterator[tuple[str, str]]:
    """Yield variables that the script sets for its shell, with their values; none for those that it unsets.

    A variable for one command, of a subshell, made of its own value, or set only where it is empty, is left out.
    """
    for command, guards in _commands(_HERE.sub(r"\3", text)):
        matches = [_ASSIGNMENT.fullmatch(word) for word in command]
        if command[0] in _DECLARATIONS or all(matches):
            pairs = [(match[1], match[2]) for match in matches if match]
        else:
            pairs = [
                (word, "") for word in command[1:] if command[0] == "unset" and re.fullmatch(r"[A-Za-z_]\w*", word)
            ]
        for name, value in pairs:
            if not re.search(rf"\$\{{?{name}\b", value) and not any(guard.asks_for(name) for guard in guards):
                yield name, re.sub(r"[\"']", "", value)


def _commands(text: str) -> t.Iterator[tuple[list[str], list[Guard]]]:
    """Yield the commands outside of subshells, with the conditions on which they run."""
    blocks: list[Guard] = []
    chain: list[Guard] = []
    command: list[str] = []
    depth = 0
    for end, word in _TOKEN.findall(f"{text}\n"):
        if word:
            command.append(word)
        # A list of commands goes on after a line that ends with its operator.
        if not end or (end == "\n" and not command):
            continue
        while command and command[0] in _KEYWORDS:
            _open_or_close(blocks, command.pop(0))
        if command:
            if blocks and not blocks[-1].complete:
                blocks[-1].text += " ".join(command)
            elif not depth:
                yield command, [*blocks, *chain]
        chain = [*chain, Guard(" ".join(command), end == "&&")] if end in ("&&", "||") else []
        depth = max(0, depth + (end == "(") - (end == ")"))
        command = []


def _open_or_close(blocks: list[Guard], keyword: str) -> None:
    if keyword == "if":
        blocks.append(Guard())
    elif blocks and keyword == "fi":
        blocks.pop()
    elif blocks and keyword in ("elif", "then", "else"):
        block = blocks.pop()
        blocks.append(Guard() if keyword == "elif" else Guard(block.text or " ", keyword == "then"))
