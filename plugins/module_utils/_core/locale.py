# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The locale of all programs that the collection starts."""

from __future__ import annotations

# Messages are read. Where LANGUAGE is set, gettext of Debian 12 prefers it to LC_ALL=C.UTF-8; an empty one counts as none.
LOCALE = {"LC_ALL": "C.UTF-8", "LANGUAGE": ""}
