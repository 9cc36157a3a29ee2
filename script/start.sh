# shellcheck shell=bash
# Sourced by the scripts: `start BOOTSTRAP-OPTION SUBCOMMAND "$@"` makes the checkout ready and runs a subcommand of the harness.
# To show its help it changes nothing.

start() {
  local option=$1 subcommand=$2 word help=false
  shift 2
  for word in "$@"; do
    [[ $word != --help && $word != -h ]] || help=true
  done
  if ! $help; then
    script/bootstrap "$option"
  elif [[ ! -x .venv/bin/python ]]; then
    cat <<END
$(sed --quiet '2s/^# //p' "script/$subcommand")

Its options are listed once the checkout has its Python environment. As root, \`script/bootstrap $option\`
makes it, with what else is needed here; \`script/bootstrap --help\` says what that is. README.md has the usual calls.
END
    return
  fi
  exec .venv/bin/python -m harness "$subcommand" "$@"
}
