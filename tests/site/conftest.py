# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from tests.slow import leave_out_slow


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    leave_out_slow(items)
