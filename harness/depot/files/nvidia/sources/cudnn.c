// SPDX-License-Identifier: GPL-3.0-or-later
// A fake, made by Rigwright's tests: cuDNN that knows its version.
#include <stddef.h>

size_t cudnnGetVersion(void)
{
	return number;
}

size_t cudnnGetCudartVersion(void)
{
	return cuda * 1000;
}
