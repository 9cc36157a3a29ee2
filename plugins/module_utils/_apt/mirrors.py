# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Choose the mirrors that are fit for use and their order, and record the choice. Pure but for the caller's ``fetch``."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import datetime
import email.utils
import json
import re
import typing as t

# The release itself changes at point releases only: Debian 12's Release file is months old on the freshest mirror. The
# updates suite is signed several times a day by Debian and daily by Ubuntu, so its date gives the age of a mirror.
PULSE = "updates"

FIT, DEAD, STALE, UNCHECKED = "fit", "dead", "stale", "unchecked"


class Unreachable(Exception):
    """A file could not be fetched; the text is the reason, as apt gives it."""


class Missing(Unreachable):
    """The server answered, and does not have the file."""


class NoMirror(Exception):
    """None of the mirrors is fit for use."""


Fetch = t.Callable[[str], str]


@dataclasses.dataclass(frozen=True)
class Mirror:
    """A mirror by its archive's address, with what was found out about it."""

    url: str
    status: str = UNCHECKED
    reason: str = ""
    age_days: float | None = None


@dataclasses.dataclass(frozen=True)
class Request:
    """What a choice depends on; as long as it is the same, a remembered choice stands and no mirror is asked.

    ``suites`` maps a suite to what is appended to a mirror's address to reach it ("" or "-security").
    """

    urls: tuple[str, ...]
    codename: str
    suites: dict[str, str]
    security: bool
    ask: bool
    max_age_days: int


@dataclasses.dataclass(frozen=True)
class Choice:
    """The mirrors in the order in which apt shall try them, those that are not used, and where security was before."""

    request: Request
    order: tuple[Mirror, ...]
    left_out: tuple[Mirror, ...] = ()
    security_uris: tuple[str, ...] = ()


def release_url(base: str, suite: str) -> str:
    return f"{base.rstrip('/')}/dists/{suite}/InRelease"


def release_date(release: str) -> datetime.datetime:
    """Return the Date of a Release file.

    :raises ValueError: there is none, so what was fetched is something else (a login page, an error page).
    """
    match = re.search(r"^Date: *(.+)$", release, re.MULTILINE)
    if match is None:
        raise ValueError("what it serves is no Release file")
    try:
        date = email.utils.parsedate_to_datetime(match[1].strip())
    except (ValueError, TypeError, IndexError) as error:  # Python 3.9 raises the latter two for some malformed dates
        raise ValueError(f"its Release file has no readable date: {match[1]}") from error
    return date if date.tzinfo else date.replace(tzinfo=datetime.timezone.utc)


def examine(url: str, request: Request, fetch: Fetch, now: datetime.datetime) -> Mirror:
    """Ask one mirror for every suite that this host uses, and weigh the newest date among them."""
    dates: list[datetime.datetime] = []
    missing: list[str] = []
    for suite, suffix in {f"{request.codename}-{PULSE}": "", **request.suites}.items():
        try:
            dates.append(release_date(fetch(release_url(url.rstrip("/") + suffix, suite))))
        except Missing as error:
            if suite in request.suites:
                missing.append(f"no {suite} ({error})")
        except (Unreachable, ValueError) as error:
            return Mirror(url, DEAD, str(error))
    age = round((now - max(dates)).total_seconds() / 86400, 1) if dates else None
    if age is not None and age > request.max_age_days:
        return Mirror(
            url, STALE, f"its newest release is {age:g} days old, the limit is {request.max_age_days} days", age
        )
    if missing:
        return Mirror(url, DEAD, "; ".join(missing), age)
    return Mirror(url, FIT, "", age)


def examine_all(request: Request, fetch: Fetch, now: datetime.datetime) -> list[Mirror]:
    """Examine all mirrors at once: a slow one costs only its own time."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=8) as pool:
        return list(pool.map(lambda url: examine(url, request, fetch, now), request.urls))


def choose(request: Request, mirrors: t.Sequence[Mirror], security_uris: t.Sequence[str] = ()) -> Choice:
    """Choose the order of use: fit mirrors in the order of the request, then dead ones, which may recover.

    Stale mirrors are left out, since apt would install old packages from one without a warning.

    :raises NoMirror: none is fit; the text has the reason of each.
    """
    usable = [mirror for mirror in mirrors if mirror.status in (FIT, UNCHECKED)]
    if not usable:
        raise NoMirror("; ".join(f"{mirror.url}: {mirror.reason}" for mirror in mirrors))
    order = usable + [mirror for mirror in mirrors if mirror.status == DEAD]
    return Choice(
        request, tuple(order), tuple(mirror for mirror in mirrors if mirror.status == STALE), tuple(security_uris)
    )


def mirror_list(urls: t.Sequence[str]) -> str:
    """Return a list for apt's mirror method (apt-transport-mirror(1)): apt tries mirrors with lower numbers first."""
    return "".join(f"{url}\tpriority:{place}\n" for place, url in enumerate(urls, 1))


def to_json(choice: Choice) -> str:
    """Return the choice as JSON. Ages are not part of it: they differ from day to day while the choice does not."""
    data = dataclasses.asdict(choice)
    for mirror in (*data["order"], *data["left_out"]):
        del mirror["age_days"]
        if mirror["status"] == STALE:
            del mirror["reason"]
    return json.dumps(data, indent=1, sort_keys=True) + "\n"


def from_json(text: str) -> Choice | None:
    """Parse a recorded choice; None if the text is not one (a newer or damaged file): then the caller chooses again."""
    try:
        data = json.loads(text)
        request = data["request"]
        return Choice(
            Request(**{**request, "urls": tuple(request["urls"])}),
            tuple(Mirror(**mirror) for mirror in data["order"]),
            tuple(Mirror(**mirror) for mirror in data["left_out"]),
            tuple(data["security_uris"]),
        )
    except (ValueError, KeyError, TypeError):
        return None
