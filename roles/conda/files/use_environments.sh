# shellcheck shell=bash
# bash --login -s DIRECTORY NAME... : use each environment as a user does, by name if conda is installed. Prints a line for each.
envs=$1
shift
HOME=$(mktemp -d)
export HOME
# The caller's working directory may be unreadable, and find would have to return to it.
cd / || exit
trap 'rm -rf "$HOME"' EXIT

use() {
    # Without conda, only the PATH would have it, and nothing would fail.
    if [ ! -d "$envs/$1" ]; then
        echo "there is no $envs/$1"
        return 1
    fi
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
        echo "users other than root may write $open"
        return 1
    fi
}

failed=0
for name; do
    if output=$(use "$name" 2>&1); then
        echo "$name: ${output:-used}"
    else
        echo "$name fails: $output"
        failed=1
    fi
done
exit $failed
