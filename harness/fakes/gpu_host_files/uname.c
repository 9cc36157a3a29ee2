// SPDX-License-Identifier: GPL-3.0-or-later
/*
 * uname(2) of the fake machine on a sandbox host: the release is that of /proc/sys/kernel/osrelease, over which a file can be
 * mounted, while the system call always answers for this machine's kernel. Comes before libc through /etc/ld.so.preload.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

int uname(struct utsname *name)
{
	int result = syscall(SYS_uname, name);
	char release[sizeof name->release];
	int file, length;

	if (result != 0)
		return result;
	file = syscall(SYS_openat, AT_FDCWD, "/proc/sys/kernel/osrelease", O_RDONLY | O_CLOEXEC);
	if (file < 0)
		return 0;
	length = syscall(SYS_read, file, release, sizeof release - 1);
	syscall(SYS_close, file);
	if (length > 0 && release[length - 1] == '\n')
		length--;
	for (int i = 0; i < length; i++)
		name->release[i] = release[i];
	if (length > 0)
		name->release[length] = '\0';
	return 0;
}
