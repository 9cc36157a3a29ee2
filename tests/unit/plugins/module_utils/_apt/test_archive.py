# SPDX-License-Identifier: GPL-3.0-or-later
"""The hosts that a workstation may be: fresh ones in both formats, upgraded ones with both, ones with third parties."""

from __future__ import annotations

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.archive import (
    HEADER,
    Cell,
    Distribution,
    NoArchive,
    Release,
    cells_of,
    entries_of,
    is_archive,
    plan,
    survey,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.sources import Entry, parse, render
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.plugins.module_utils._apt.test_sources import entries

LIST = "/etc/apt/sources.list"
OWN = "/etc/apt/sources.list.d/debian.sources"
DOCKER = "/etc/apt/sources.list.d/docker.list"
KEY = "/usr/share/keyrings/debian-archive-keyring.gpg"
MIRROR = "https://mirror.example/debian"

DEBIAN = Distribution(
    id="debian",
    codename="bookworm",
    pockets=("updates", "backports", "security"),
    security_pocket="security",
    components=("main", "contrib", "non-free", "non-free-firmware"),
    keyrings=("debian-archive-keyring.gpg", "debian-archive-keyring.pgp"),
    directories=("debian", "debian-security"),
)
UBUNTU = Distribution(
    id="ubuntu",
    codename="noble",
    pockets=("updates", "backports", "security"),
    security_pocket="security",
    components=("main", "restricted", "universe", "multiverse"),
    keyrings=("ubuntu-archive-keyring.gpg",),
    directories=("ubuntu", "ubuntu-ports"),
)

ONE_LINE = """\
# See the wiki.
deb http://archive.example/debian bookworm main contrib
deb http://archive.example/debian bookworm-updates main contrib
deb http://archive.example/debian-security/ bookworm-security main contrib
#deb-src http://archive.example/debian bookworm main
"""

DEB822 = f"""\
Types: deb
URIs: http://archive.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: {KEY}

Types: deb
URIs: http://archive.example/debian-security
Suites: bookworm-security
Components: main contrib
Signed-By: {KEY}
"""

THIRD_PARTY = (
    "deb [arch=amd64 signed-by=/etc/apt/keyrings/docker.asc] https://docker.example/linux/debian bookworm stable\n"
)


def wanted(texts: dict[str, str], distribution: Distribution = DEBIAN, **options: object) -> dict[str, str | None]:
    return plan(survey(texts, distribution, {}), MIRROR, **options)  # type: ignore[arg-type]


def cells_in(texts: dict[str, str | None], distribution: Distribution = DEBIAN) -> list[Cell]:
    """Return the cells of the distribution's archive as apt would read them, with every repetition."""
    present = {path: text for path, text in texts.items() if text is not None}
    entries = [
        block.entry
        for path, text in present.items()
        for block in parse(path, text)
        if block.entry and is_archive(block.entry, path, distribution, {})
    ]
    return [
        Cell(kind, suite, component, entry.uris, entry.options)
        for entry in entries
        for kind in entry.types
        for suite in entry.suites
        for component in entry.components
    ]


def apply(texts: dict[str, str], planned: dict[str, str | None]) -> dict[str, str]:
    return {path: text for path, text in {**texts, **planned}.items() if text is not None}


def test_a_deb822_host_changes_its_address_and_nothing_else() -> None:
    assert wanted({OWN: DEB822}) == {OWN: HEADER + DEB822.replace("http://archive.example/debian\n", f"{MIRROR}\n")}


def test_one_line_sources_become_one_deb822_file() -> None:
    planned = wanted({LIST: ONE_LINE})

    assert planned[LIST] is None
    assert planned[OWN] == HEADER + (
        f"Types: deb\nURIs: {MIRROR}\nSuites: bookworm bookworm-updates\nComponents: main contrib\n\n"
        "Types: deb\nURIs: http://archive.example/debian-security/\nSuites: bookworm-security\nComponents: main contrib\n"
    )


def test_host_with_both_formats_gets_one_definition() -> None:
    texts = {LIST: ONE_LINE, OWN: DEB822}

    after = apply(texts, wanted(texts))

    assert set(after) == {OWN}
    keys = [(cell.type, cell.suite, cell.component) for cell in cells_in(dict(after))]
    assert len(keys) == len(set(keys)) == 6


def test_suites_and_components_of_both_files_are_kept() -> None:
    texts = {OWN: DEB822, LIST: "deb http://archive.example/debian bookworm main non-free\n"}

    after = {(cell.suite, cell.component) for cell in cells_in(wanted(texts))}

    assert ("bookworm", "non-free") in after
    assert ("bookworm-updates", "non-free") not in after


def test_backports_follow_to_the_mirror() -> None:
    texts = {
        OWN: DEB822,
        "/etc/apt/sources.list.d/backports.list": f"deb [signed-by={KEY}] http://archive.example/debian bookworm-backports main\n",
    }

    after = apply(texts, wanted(texts))

    assert set(after) == {OWN}
    assert {cell.uris for cell in cells_in(dict(after)) if cell.suite == "bookworm-backports"} == {(MIRROR,)}


def test_security_stays_where_it_was_unless_asked() -> None:
    def security(planned: dict[str, str | None]) -> set[tuple[str, ...]]:
        return {cell.uris for cell in cells_in(planned) if cell.suite == "bookworm-security"}

    assert security(wanted({OWN: DEB822})) == {("http://archive.example/debian-security",)}
    assert security(wanted({OWN: DEB822}, security_uris=[f"{MIRROR}-security"])) == {(f"{MIRROR}-security",)}


def test_ubuntu_keeps_security_in_the_same_archive() -> None:
    own = "/etc/apt/sources.list.d/ubuntu.sources"
    text = (
        "Types: deb\nURIs: http://archive.example/ubuntu/\nSuites: noble noble-updates noble-backports\n"
        "Components: main restricted universe multiverse\nSigned-By: /usr/share/keyrings/ubuntu-archive-keyring.gpg\n\n"
        "Types: deb\nURIs: http://security.example/ubuntu/\nSuites: noble-security\n"
        "Components: main restricted universe multiverse\nSigned-By: /usr/share/keyrings/ubuntu-archive-keyring.gpg\n"
    )

    planned = wanted({own: text}, UBUNTU)

    assert planned == {own: HEADER + text.replace("http://archive.example/ubuntu/", MIRROR)}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (DOCKER, THIRD_PARTY),
        (
            "/etc/apt/sources.list.d/x.list",
            "deb [signed-by=/etc/apt/keyrings/x.gpg] https://x.example/debian bookworm main\n",
        ),
        ("/etc/apt/sources.list.d/y.list", "deb https://y.example/debian bookworm main\n"),
        (
            "/etc/apt/sources.list.d/z.sources",
            "Types: deb\nURIs: https://z.example/\nSuites: bookworm\nComponents: main\nSigned-By:\n -----BEGIN\n .\n",
        ),
    ],
    ids=["own component", "own key", "no key", "embedded key"],
)
def test_a_third_party_that_uses_the_same_suite_is_not_touched(path: str, text: str) -> None:
    assert path not in wanted({OWN: DEB822, path: text})


def test_a_third_party_line_stays_in_the_file_it_shares() -> None:
    assert wanted({LIST: ONE_LINE + THIRD_PARTY})[LIST] == (
        f"# See the wiki.\n#deb-src http://archive.example/debian bookworm main\n{THIRD_PARTY}"
    )


def test_fetched_index_decides_over_the_directory_name() -> None:
    line = "deb http://archive.example/debian bookworm main\n"
    entry = parse(LIST, line)[0].entry
    assert entry is not None

    def decided(origin: str) -> bool:
        return is_archive(entry, LIST, DEBIAN, {("http://archive.example/debian", "bookworm"): Release(origin)})

    assert decided("Debian")
    assert decided("Debian Backports")
    assert not decided("Example Packages")
    assert not decided("Debianish")


def test_a_host_without_its_archive_is_refused() -> None:
    with pytest.raises(NoArchive, match="debian bookworm"):
        survey({DOCKER: THIRD_PARTY, LIST: "deb http://archive.example/debian bullseye main\n"}, DEBIAN, {})


def test_a_disabled_stanza_is_no_definition_and_stays() -> None:
    disabled = "Enabled: no\n" + DEB822.partition("\n\n")[0] + "\n"

    text = wanted({OWN: f"{DEB822}\n{disabled}"})[OWN]

    assert text is not None
    assert text.endswith(f"\n\n{disabled}")


def test_a_file_that_an_earlier_plan_emptied_stays_named() -> None:
    # Otherwise config_files would give it back, and the archive would be defined twice.
    assert wanted({OWN: DEB822}, managed=[LIST]) == {**wanted({OWN: DEB822}), LIST: None}


def test_definition_for_all_architectures_comes_first() -> None:
    some = Entry(("deb",), ("http://a.example/debian",), ("bookworm",), ("main",), (("Architectures", "amd64"),))
    every = Entry(("deb",), ("http://b.example/debian",), ("bookworm",), ("main",))

    assert [cell.uris for cell in cells_of([some, every])] == [("http://b.example/debian",)]


@given(st.lists(entries, min_size=1, max_size=4))
def test_joined_stanzas_equal_their_cells(some: list[Entry]) -> None:
    assert set(cells_of(entries_of(cells_of(some)))) == set(cells_of(some))


suites = st.lists(st.sampled_from(sorted(DEBIAN.suites)), min_size=1, max_size=3, unique=True).map(tuple)
components = st.lists(st.sampled_from(DEBIAN.components), min_size=1, max_size=3, unique=True).map(tuple)
archives = st.builds(
    Entry,
    st.sampled_from([("deb",), ("deb", "deb-src")]),
    st.sampled_from([("http://archive.example/debian",), ("http://other.example/debian",)]),
    suites,
    components,
    st.sampled_from([(), (("Signed-By", KEY),)]),
)


def one_line(entry: Entry) -> str:
    option = f"[signed-by={entry.option('Signed-By')}] " if entry.options else ""
    return "".join(
        f"{kind} {option}{entry.uris[0]} {suite} {' '.join(entry.components)}\n"
        for kind in entry.types
        for suite in entry.suites
    )


@given(st.lists(archives, max_size=3), st.lists(archives, max_size=3), st.booleans())
def test_any_sources_lead_to_one_definition(lines: list[Entry], stanzas: list[Entry], security: bool) -> None:
    texts = {LIST: "".join(map(one_line, lines)), OWN: render(stanzas), DOCKER: THIRD_PARTY}
    if not lines and not stanzas:
        with pytest.raises(NoArchive):
            wanted(texts)
        return
    given_uris = [f"{MIRROR}-security"] if security else []

    planned = wanted(texts, security_uris=given_uris)
    after = apply(texts, planned)

    before_keys = {(cell.type, cell.suite, cell.component) for cell in cells_in(dict(texts))}
    keys = [(cell.type, cell.suite, cell.component) for cell in cells_in(dict(after))]
    assert set(keys) == before_keys, "nothing is lost or invented"
    assert len(keys) == len(set(keys)), "nothing is defined twice"
    assert after[DOCKER] == THIRD_PARTY
    assert plan(survey(after, DEBIAN, {}), MIRROR, given_uris, managed=planned) == planned, "a second plan is the same"
