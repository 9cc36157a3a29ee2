#!/bin/sh
# mmdebstrap's setup hook, before the first package: a tree with /usr merged, as every Debian since 12 has it. A tree that is not would
# be converted by a package that brings all of perl. Argument: the root.
set -eu
root=$1

for name in bin sbin lib lib64; do
  mkdir -p "$root/usr/$name"
  ln -s "usr/$name" "$root/$name"
done
printf 'Package: usrmerge\nPin: version *\nPin-Priority: -1\n' >"$root/etc/apt/preferences.d/drill"
