# shellcheck shell=sh
# As conda's own: the function that `conda activate` needs, since a program cannot change its shell.
export CONDA_EXE='@prefix@/bin/conda'
conda() {
    if [ "$1" = activate ]; then
        __conda_commands="$("$CONDA_EXE" shell.posix "$@")" || return
        eval "$__conda_commands"
    else
        "$CONDA_EXE" "$@"
    fi
}
