# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the role status in a request. Made from its argument spec by `python -m harness pages`."""

from __future__ import annotations

import typing as t


class StatusOptions(t.TypedDict):
    state: str
    console: str
    login_line: bool
    html: bool
    interval_s: int
