# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The users of Samba: problems of a list, and the plan that makes the database match it. Pure.

Pure: the module samba_users reads and writes the database by ``pdbedit``.
"""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import lines
from ansible_collections.rigwright.workstation.plugins.module_utils._core.names import NAME_REMEDY, is_name
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._samba.nt_hash import EMPTY, NT_HASH, nt_hash

# Users whom the role has added, so that it removes no others.
RECORD = "/var/lib/rigwright_samba/users.json"

# pdbedit reads a line of 255 bytes at most, and cuts a longer one.
LONGEST = 254
DISABLED = "D"
_FORMS = {
    "account": r"(?P<name>[^:]+):(?P<uid>\d+):[^:]*:(?P<hash>[^:]*):(?P<flags>[^:]*)(:.*)?",
    # What Samba says of its own configuration and modules.
    "remark": r"(Unknown|Ignoring|Forcing|Registered|Initiali[sz]ing|Processing|No builtin|lp_load|load_module|lpcfg_\w+|rlimit_max|WARNING"
    r"|ERROR|Can't find include file)\b.*",
}

User = t.Mapping[str, t.Any]


class Account(t.NamedTuple):
    """An entry of Samba's database. ``uid`` is -1 where the user is gone from the host."""

    nt_hash: str
    enabled: bool
    uid: int = 0


@dataclasses.dataclass(frozen=True)
class Plan:
    """Users by what has to be done to them, and who is the role's own afterwards. It has no secret.

    ``recorded``: who was the role's own before. ``before``: a line for each user whom it changes.
    """

    remove: tuple[str, ...] = ()
    add: tuple[str, ...] = ()
    password: tuple[str, ...] = ()
    enable: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    record: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ()
    before: tuple[str, ...] = ()

    @classmethod
    def of(cls, plan: t.Mapping[str, t.Sequence[str]]) -> Plan:
        """Return a plan that was a dictionary on its way."""
        return cls(**{field.name: tuple(plan[field.name]) for field in dataclasses.fields(cls)})

    @property
    def is_due(self) -> bool:
        return bool(self.changes) or self.record != self.recorded

    @property
    def changes(self) -> list[str]:
        """Return the changes as text without secrets."""
        verbs = {
            "remove": "removed",
            "add": "added",
            "password": "password changed",
            "enable": "enabled",
            "disable": "disabled",
        }
        return [f"{name}: {verb_text}" for verb, verb_text in verbs.items() for name in getattr(self, verb)]


def parse_accounts(text: str) -> dict[str, Account]:
    """Return the accounts of ``pdbedit -L -w``: lines of smbpasswd(5), whose last-but-one fields are the NT hash and the flags."""
    found = {}
    for form, match in lines.parse("pdbedit", text, _FORMS, secret=True):
        if form == "account":
            uid = int(match["uid"])
            # Of a user who is gone the id is the greatest there is.
            found[match["name"]] = Account(
                match["hash"].upper(), DISABLED not in match["flags"], -1 if uid == 0xFFFFFFFF else uid
            )
    return found


def wanted_hash(user: User) -> str:
    return str(user["nt_hash"]).upper() if user.get("nt_hash") else nt_hash(str(user["password"]))


def is_present(user: User) -> bool:
    return user.get("state", "present") == "present"


def is_enabled(user: User) -> bool:
    return user.get("enabled") is not False


def plan(accounts: t.Mapping[str, Account], users: t.Sequence[User], record: t.Collection[str]) -> Plan:
    """Plan the changes after which the database holds these users, and no others that the role has added.

    Samba writes names in small letters, whatever the host does.
    """
    names = {name.lower(): name for name in accounts}
    present = {str(user["name"]): user for user in users if is_present(user)}
    kept = {name.lower() for name in present}
    gone = {str(user["name"]).lower() for user in users if not is_present(user)} | {name.lower() for name in record}
    here = {name: accounts[names[name.lower()]] for name in present if name.lower() in names}
    missing = [name for name in present if name not in here]
    changing = {name for name, found in here.items() if found.nt_hash != wanted_hash(present[name])}
    found = Plan(
        remove=tuple(names[name] for name in sorted(gone - kept) if name in names),
        add=tuple(missing),
        password=tuple(name for name in here if name in changing),
        enable=tuple(name for name, account in here.items() if is_enabled(present[name]) and not account.enabled),
        # A new password enables a user again.
        disable=tuple(
            name
            for name, user in present.items()
            if not is_enabled(user) and (name in missing or name in changing or here[name].enabled)
        ),
        record=tuple(sorted({name for name in record if name.lower() in kept} | set(missing))),
        recorded=tuple(sorted(record)),
    )
    changed = {change.partition(":")[0].lower() for change in found.changes}
    before = [
        f"{name}: {'enabled' if account.enabled else 'disabled'}"
        for name, account in sorted(accounts.items())
        if name.lower() in changed
    ]
    return dataclasses.replace(found, before=tuple(before))


def problems_of_request(users: t.Sequence[User], uids: t.Mapping[str, int]) -> t.Iterator[Problem]:
    """Yield the problems of the list, as the action ``require`` takes them.

    :param uids: users of the host.
    """
    names = [str(user["name"]) for user in users]
    odd = [name for name in names if not is_name(name)]
    if odd:
        yield problem(
            "samba_users",
            f"has what is no user name: {', '.join(map(repr, odd))}",
            NAME_REMEDY,
        )
    twice = sorted({name for name in names if [other.lower() for other in names].count(name.lower()) > 1})
    if twice:
        yield problem(
            "samba_users",
            f"names a user twice: {', '.join(twice)}",
            "give each user one entry; capitals make no difference",
        )
    for user in users:
        if is_present(user) and is_name(str(user["name"])):
            yield from _user_problems(user, uids)


def _user_problems(user: User, uids: t.Mapping[str, int]) -> t.Iterator[Problem]:
    name, password, given = str(user["name"]), user.get("password"), user.get("nt_hash")
    if uids.get(name) == 0:
        yield problem(
            "samba_users",
            f"names {name}, whom Samba would let write every file as root",
            "name a user without the rights of root",
        )
    elif name not in uids:
        yield problem(
            "samba_users",
            f"names {name}, who is no user of this host",
            "make the user first (ansible.builtin.user), or set `state: absent`",
        )
    if any(secret is not None and not isinstance(secret, str) for secret in (password, given)):
        yield problem(
            "samba_users",
            f"has a password for {name} that YAML takes for a number, a boolean or a list, and may read as another one (012 is 10)",
            "put it in quotes",
        )
    elif bool(password) == bool(given):
        yield problem(
            "samba_users",
            f"has {'both `password` and `nt_hash`' if given else 'no password'} for {name}",
            "set `password`, or `nt_hash` where the password itself is not to be known, and keep it in a vault",
        )
    elif given and (not NT_HASH.fullmatch(str(given)) or str(given).upper() == EMPTY):
        yield problem(
            "samba_users",
            f"has an `nt_hash` for {name} that is {'of the empty password' if str(given).upper() == EMPTY else 'none'}",
            "write the 32 hexadecimal digits that `pdbedit -L -w` shows in the fourth field",
        )
    elif password and any(ord(letter) < 32 or ord(letter) == 127 for letter in str(password)):
        yield problem(
            "samba_users",
            f"has a password for {name} with a line break or another control character, which nobody can type",
            "a text block of YAML ends with a line break: write `|-`, or put the password in quotes",
        )
    elif password and len(str(password).encode("utf-8", errors="surrogatepass")) > LONGEST:
        yield problem("samba_users", f"has a password for {name} of more than {LONGEST} bytes", "take a shorter one")
