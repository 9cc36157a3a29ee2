# shellcheck shell=bash
# bash --login -s DIRECTORY NAME... : use each environment as a user does, by name where there is conda. Told is a line for each.
envs=$1
shift
HOME=$(mktemp -d)
export HOME
# Whoever called may be where nobody may look, and find would have to go back there.
cd / || exit
trap 'rm -rf "$HOME"' EXIT

use() {
    if command -v conda >/dev/null; then
        conda activate "$1" || return
    else
        PATH=$envs/$1/bin:$PATH
    fi
    if [ -e "$envs/$1/bin/python" ] || [ -L "$envs/$1/bin/python" ]; then
        python -c 'import sys; print("Python", sys.version.split()[0], "of", sys.prefix)' || return
    fi
    open=$(find -H "$envs/$1" ! -type l \( ! -user 0 -o -perm /022 \) -print -quit)
    if [ -n "$open" ]; then
        echo "others than root may write $open"
        return 1
    fi
}

failed=0
for name; do
    if told=$(use "$name" 2>&1); then
        echo "$name: ${told:-used}"
    else
        echo "$name fails: $told"
        failed=1
    fi
done
exit $failed
