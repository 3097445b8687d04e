#!/usr/bin/env bash
# launcher_test.sh LAUNCHER: what the launcher builds and runs, and when, with fakes of cmake, ctest and apt.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root="$work/a folder"
bin=$work/bin
calls=$work/calls
export FAKES=$work
mkdir -p "$root" "$bin"
cp "$1" "$root/heed"
for tool in bash cat dirname env flock grep mkdir nproc readlink rm rmdir sed setpriv sleep tail tee; do
  ln -s "$(command -v "$tool")" "$bin/$tool"
done

fake() {  # fake NAME <script
  { echo '#!/usr/bin/env bash'; cat; } >"$bin/$1"
  chmod +x "$bin/$1"
}
for tool in c++ ninja pkg-config mpicc mpirun python3 clang-format clang++; do fake "$tool" </dev/null; done
fake cmake <<'SCRIPT'
echo "cmake $*" >>"$FAKES/calls"
if [[ $1 == -S ]]; then
  printf '%s\n' "CMAKE_HOME_DIRECTORY:INTERNAL=$2" "${*: -1}" | sed 's/-DHEED_TESTS=/HEED_TESTS:BOOL=/' >"$4/CMakeCache.txt"
  >"$4/build.ninja"
  exit
fi
mkdir "$FAKES/building" || { echo collision >>"$FAKES/calls"; exit 1; }
sleep "${FAKE_DELAY:-0}"
rmdir "$FAKES/building"
[[ -z ${FAKE_ERROR:-} ]] || { echo "x.cpp:3: error: $FAKE_ERROR"; exit 1; }
[[ -x $2/bin/heed ]] && { echo 'ninja: no work to do.'; exit; }
echo '[1/1] a step'
mkdir -p "$2/bin"
cat >"$2/bin/heed" <<'PROGRAM'
#!/usr/bin/env bash
printf '<%s>' "$PWD" "$@"
sleep "${PROGRAM_DELAY:-0}"
exit "${PROGRAM_CODE:-0}"
PROGRAM
"$FAKES/chmod" +x "$2/bin/heed"
SCRIPT
ln -s "$(command -v chmod)" "$work/chmod"
fake ctest <<<'echo "ctest $*" >>"$FAKES/calls"'
fake dpkg-query <<<'for word; do [[ $word == "${FAKE_MISSING:-}" ]] || echo "installed $word"; done'
fake apt-get <<<'echo "apt-get $*" >>"$FAKES/calls"'

case_name=
fail() { printf 'FAILED: %s: %s\n' "$case_name" "$*"; exit 1; }
expect() { [[ $2 == $1 ]] || fail "expected $1, got: $2"; }  # $1 is a pattern
called() { [[ -f $calls ]] && grep -qE -- "$1" "$calls"; }
# run CODE [NAME=VALUE...] COMMAND...: stdout to $out, stderr to $err
run() {
  local code=0 want=$1
  out=$(env -i PATH="$bin" FAKES="$work" "${@:2}" 2>"$work/stderr" </dev/null) || code=$?
  err=$(<"$work/stderr")
  [[ $code == "$want" ]] || fail "exit code $code instead of $want: $err"
}
start() { case_name=$1; rm -rf "$calls" "$root/build"; }

start 'first call configures without tests, builds one target, runs in the folder of the caller'
cd "$work"
run 0 "$root/heed" train 'my config.toml' model.seed=2
expect "<$work><train><my config.toml><model.seed=2>" "$out"
expect '*building*' "$err"
called "^cmake -S $root .*-G Ninja .*-DHEED_TESTS=OFF$" || fail 'not configured'
called '--target heed$' || fail 'wrong target'

case_name='second call is silent and does not configure'
rm "$calls"
run 0 "$root/heed" info
expect '' "$err"
! called 'cmake -S' || fail 'configured again'

case_name='through a symbolic link, without arguments, with the exit code of the program'
ln -s "$root/heed" "$work/link"
run 6 PROGRAM_CODE=6 "$work/link"
expect "<$work><--help>" "$out"
! called 'cmake -S' || fail 'took another folder for its own'

case_name='test adds the tests to the same build and hands its arguments to ctest'
run 0 "$root/heed" test -R 'layer norm'
called '-DHEED_TESTS=ON$' || fail 'no tests'
called '--target all$' || fail 'wrong target'
called "^ctest --test-dir $root/build .*-R layer norm$" || fail 'ctest'

for rank in OMPI_COMM_WORLD_SIZE=1 PMI_RANK=0 PMIX_RANK=1 'SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2' 'RANK=0 WORLD_SIZE=2'; do
  read -ra variables <<<"$rank"
  start "a rank ($rank) builds nothing"
  run 2 "${variables[@]}" "$root/heed" train a.toml
  expect '*is missing*' "$err"
  [[ ! -e $calls ]] || fail "called $(<"$calls")"
  run 0 "$root/heed" info
  rm "$calls"
  run 0 "${variables[@]}" "$root/heed" train a.toml
  expect '*<train><a.toml>' "$out"
  run 2 "${variables[@]}" "$root/heed" test
  [[ ! -e $calls ]] || fail "called $(<"$calls")"
done
start 'one task of Slurm is no rank, and neither is the script of a job that has several'
run 0 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 "$root/heed" info
run 0 SLURM_PROCID=0 SLURM_NTASKS=2 "$root/heed" info

start 'two calls at once build one after the other'
run 0 FAKE_DELAY=0.3 bash -c '"$0" one & "$0" two; wait $!' "$root/heed"
expect '*waiting*' "$err"
! called collision || fail 'both built at the same time'

case_name='a running program holds no lock'
run 0 bash -c 'PROGRAM_DELAY=2 "$0" train & sleep 0.5; "$0" info; kill $!' "$root/heed"
expect '' "$err"

start 'a failed build shows its error and runs nothing'
run 1 FAKE_ERROR='no such thing' "$root/heed" train a.toml
expect '*error: no such thing*build.log' "$err"
expect '' "$out"

start 'a build folder copied from another place is refused'
run 0 "$root/heed" info
cp -r "$root" "$work/copy"
run 2 "$work/copy/heed" info
expect '*remove it' "$err"

if ((EUID == 0)); then
  start 'root installs what is missing, once'
  run 0 FAKE_MISSING=libhwy-dev "$root/heed" info
  called '^apt-get install .* libhwy-dev' || fail 'not installed'
  ! called 'libfmt-dev' || fail 'installed what is there'

  start 'a user without sudo is told the exact line'
  chmod 777 "$work" "$root"
  user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
  run 2 FAKE_MISSING=libhwy-dev "${user[@]}" "$root/heed" info
  expect '*apt-get install -y --no-install-recommends libhwy-dev' "$err"
  [[ ! -e $calls ]] || fail "called $(<"$calls")"

  start 'a user with sudo installs through it'
  fake sudo <<<'echo "sudo $*" >>"$FAKES/calls"'
  run 0 FAKE_MISSING=libhwy-dev "${user[@]}" "$root/heed" info
  called '^sudo .*apt-get install .*libhwy-dev' || fail 'not through sudo'
  rm "$bin/sudo"
fi

start 'elsewhere the missing tools are named'
rm "$bin/apt-get" "$bin/dpkg-query" "$bin/ninja"
run 2 "$root/heed" info
expect '*ninja-build*Highway*' "$err"
echo 'launcher: all cases passed'
