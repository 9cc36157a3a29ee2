// SPDX-License-Identifier: GPL-3.0-or-later
// A fake, made by Rigwright's tests: a library with a name and a version that does nothing.
const char rigwright_fake[] = "fake";
