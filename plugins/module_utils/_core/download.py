# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Download from a server that is trusted with nothing: it may send without end, or a byte at a time."""

from __future__ import annotations

import contextlib
import io
import signal
import typing as t
import urllib.error
import urllib.parse

from ansible.module_utils.urls import open_url
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown

_MOVED = (301, 302, 303, 307, 308)
_REDIRECTIONS = 10


class Unbounded(ValueError):
    """A server sends more than the limit, or for longer."""


class Misled(ValueError):
    """A server redirects to where no server is, or to one that anybody on the way can play."""


@contextlib.contextmanager
def deadline(seconds: float) -> t.Iterator[None]:
    """End what takes longer. The time limit of a socket begins again with each byte.

    :raises Unbounded: the time is over.
    """

    def late(_number: int, _frame: object) -> t.NoReturn:
        raise Unbounded(f"it did not end within {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, late)
    # Again each second: Python drops an exception that is raised while it destroys an object.
    timer = signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001), 1)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def opened_url(url: str, seconds: float, timeout: float = 30, **options: t.Any) -> t.Iterator[t.Any]:
    """Open an address, and end what the caller does with the answer after so many seconds.

    :param timeout: seconds for a server that sends nothing.
    :raises Unbounded: the time is over.
    :raises Misled: a redirection leads to a file, data, FTP, or from https to http.
    """
    with deadline(seconds), _open(url, timeout, options) as answer:
        yield answer


def _open(url: str, timeout: float, options: dict[str, t.Any]) -> t.Any:
    for remaining in reversed(range(_REDIRECTIONS)):
        try:
            # urllib would read the whole body of a redirection into memory.
            return open_url(url, timeout=timeout, http_agent="rigwright", follow_redirects="none", **options)
        except urllib.error.HTTPError as error:
            if error.code not in _MOVED or not remaining:
                raise
            before, url = url, str(error.filename)
            error.close()
            _check_redirection(before, url)
    raise AssertionError


def _check_redirection(before: str, after: str) -> None:
    schemes = urllib.parse.urlsplit(before).scheme.lower(), urllib.parse.urlsplit(after).scheme.lower()
    if schemes[1] not in ("http", "https") or schemes == ("https", "http"):
        raise Misled(
            f"it redirects to {shown(after, 200)}, and only http and https are followed, never from https to http"
        )


def copy(answer: t.Any, file: t.IO[bytes], limit: int) -> None:
    """Write an answer to a file.

    :raises Unbounded: it has more than *limit* bytes.
    """
    size = 0
    for block in iter(lambda: answer.read(1 << 20), b""):
        size += len(block)
        if size > limit:
            raise Unbounded(f"it has more than {limit} bytes")
        file.write(block)


def read_url(url: str, limit: int, seconds: float, timeout: float = 30) -> bytes:
    """Return the content of an address.

    :raises OSError: the server does not answer, or not with a file.
    :raises ValueError: it sends more than the limit, or for longer; or the address is none.
    """
    file = io.BytesIO()
    with opened_url(url, seconds, timeout) as answer:
        copy(answer, file, limit)
    return file.getvalue()
