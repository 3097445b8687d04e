#!/bin/sh
# ptxas_report.sh COMPILER ARGUMENT... -o OBJECT: compiles, with ptxas -v, and keeps what ptxas says of the kernels in
# OBJECT.ptxas, where tests/cuda/machine_code_test.py reads it: a build that has nothing to compile prints nothing. The
# compiler may be ccache with its own: it prints what it has kept.
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
