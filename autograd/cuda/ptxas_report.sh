#!/bin/sh
# ptxas_report.sh COMPILER ARGUMENT... -o OBJECT: runs the compiler and moves the output of `ptxas -v` from stderr to
# OBJECT.ptxas, where tests/cuda/machine_code_test.py reads it. The file is needed because a build that has nothing to
# compile prints nothing. COMPILER may be ccache, which prints the output that it has cached.
object=
before=
for argument; do
  [ "$before" != -o ] || object=$argument
  before=$argument
done
[ -n "$object" ] || exec "$@"
rm -f "$object.ptxas"
code=0
"$@" 2>"$object.stderr" || code=$?
pattern='^ptxas info|bytes stack frame'
[ $code != 0 ] || grep -E "$pattern" "$object.stderr" >"$object.ptxas"
grep -vE "$pattern" "$object.stderr" >&2
rm -f "$object.stderr"
exit $code
