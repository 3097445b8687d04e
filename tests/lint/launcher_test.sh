#!/usr/bin/env bash
# launcher_test.sh LAUNCHER [BUILD]: what the launcher builds and runs, and when, with fakes of cmake, ctest and apt. With
# a build folder also how the real build replaces the program.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root="$work/a folder"
bin=$work/bin
calls=$work/calls
export FAKES=$work
mkdir -p "$root" "$bin"
cp "$1" "$root/heed"
for tool in bash cat cp diff dirname env find flock grep kill mkdir mv nproc readlink rm rmdir sed setpriv sha256sum sleep \
  sort stat tail tee timeout touch xargs; do
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
  touch "$4/CMakeCache.txt"
  for word in "-DCMAKE_HOME_DIRECTORY=$2" "${@:7}"; do  # the last value of a name counts, as in the real cache
    name=${word#-D} name=${name%%=*}
    sed -i "/^$name:/d" "$4/CMakeCache.txt"
    echo "$name:STRING=${word#*=}" | sed 's/DIRECTORY:STRING/DIRECTORY:INTERNAL/' >>"$4/CMakeCache.txt"
  done
  [[ -z ${FAKE_STATUS:-} ]] || echo "-- $FAKE_STATUS"
  [[ -z ${FAKE_CONFIGURE_ERROR:-} ]] || { echo "CMake Error: $FAKE_CONFIGURE_ERROR"; exit 1; }
  >"$4/build.ninja"
  exit
fi
# Each build regenerates build.ninja first, which may add settings, as after an update of CMakeLists.txt.
[[ -z ${FAKE_NEW_SETTING:-} ]] || grep -q "^HEED_NEW:" "$2/CMakeCache.txt" || echo HEED_NEW:BOOL=ON >>"$2/CMakeCache.txt"
[[ $4 != build.ninja ]] || exit 0
source=$2/../train/main.cpp
mkdir "$FAKES/building" || { echo collision >>"$FAKES/calls"; exit 1; }
[[ $4 == heed ]] && sleep "${FAKE_DELAY:-0}" || sleep "${FAKE_TEST_DELAY:-0}"
rmdir "$FAKES/building"
[[ -z ${FAKE_ERROR:-} ]] || { echo "x.cpp:3: error: $FAKE_ERROR"; exit 1; }
[[ -x $2/bin/heed && ! $source -nt $2/bin/heed ]] && { echo 'ninja: no work to do.'; exit; }
echo '[1/1] a step'
mkdir -p "$2/bin"
{ echo '#!/usr/bin/env bash'; echo "version='$(<"$source")'"; cat; } >"$2/bin/heed.new" <<'PROGRAM'
[[ ${1:-} != --version ]] || { echo "$version"; exit; }
printf '<%s>' "$PWD" "$@"
sleep "${PROGRAM_DELAY:-0}"
exit "${PROGRAM_CODE:-0}"
PROGRAM
"$FAKES/chmod" +x "$2/bin/heed.new"
mv "$2/bin/heed.new" "$2/bin/heed"
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
start() {  # start CASE: nothing is built
  case_name=$1
  rm -rf "$calls" "$root"/{build,CMakeLists.txt,autograd,nn,optim,data,train,tests}
  mkdir -p "$root"/{autograd,nn,optim,data,train,tests}
  echo 1 >"$root/train/main.cpp"
  echo '#pragma once' >"$root/nn/gpt.hpp"
  >"$root/CMakeLists.txt"
}
built() { start "$1"; run 0 "$root/heed" --version; rm "$calls"; }  # built CASE: all is built

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

case_name='the full tests are added once, with the CUDA code where there is nvcc'
fake nvcc </dev/null
run 0 "$root/heed" test --full -L lint
called "^cmake -S $root .*-DHEED_TESTS=FULL -DHEED_CUDA=ON$" || fail 'not configured'
called "^ctest --test-dir $root/build .*-L lint$" || fail 'ctest'
rm "$calls" "$bin/nvcc"
run 0 "$root/heed" info
run 0 "$root/heed" test -L lint --full
! called 'cmake -S' || fail 'configured again'
called "^ctest --test-dir $root/build .* -L lint$" || fail 'ctest got --full'
run 0 "$root/heed" test
called "^cmake -S $root .*-DHEED_TESTS=ON$" || fail 'still the full tests'

start 'build says what it built, and why without CUDA'
run 0 FAKE_STATUS='CUDA: off, because of the moon' "$root/heed" build
called '^cmake -S .*-DHEED_TESTS=OFF -DHEED_CUDA=AUTO$' || fail 'not configured'
expect '*heed: CUDA: off, because of the moon*/bin/heed is built: *' "$err"
expect '' "$out"
rm "$calls"
run 0 "$root/heed" build --cuda
called "^cmake -S $root .*-G Ninja -DHEED_CUDA=ON$" || fail 'not configured'
run 0 "$root/heed" build
called "^cmake -S $root .*-G Ninja -DHEED_CUDA=AUTO$" || fail 'not configured'
run 0 "$root/heed" build --cpu
called "^cmake -S $root .*-G Ninja -DHEED_CUDA=OFF$" || fail 'not configured'
run 2 "$root/heed" build --fast
expect 'heed: build --fast: expected --cuda, --cpu or no argument' "$err"
run 2 HEED_NO_BUILD=1 "$root/heed" build

case_name='a setting that fails is not kept'
run 1 FAKE_CONFIGURE_ERROR='no nvcc' "$root/heed" build --cuda
expect '*no nvcc*' "$err"
rm "$calls"
run 0 "$root/heed" info
! called . || fail "called $(<"$calls")"
start 'nor is one of the first time'
run 1 FAKE_CONFIGURE_ERROR='no nvcc' "$root/heed" build --cuda
run 0 "$root/heed" info
! grep -q HEED_CUDA "$root/build/CMakeCache.txt" || fail 'kept'

built 'a setting that an update adds is part of what was built'
echo '#' >>"$root/CMakeLists.txt"
run 0 FAKE_NEW_SETTING=1 "$root/heed" info
rm "$calls"
run 0 "$root/heed" info
! called . || fail "called $(<"$calls")"

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
expect '*heed: waiting for another ./heed that is building (process *, for ? s)*' "$err"
! called collision || fail 'both built at the same time'

start 'a long wait says so once'
run 0 FAKE_DELAY=2 bash -c '"$0" one & sleep 0.3; "$0" two 2>&1; wait $!' "$root/heed"
expect 'heed: waiting for another ./heed that is building (process *, for ? s)'$'\n''<*' "$out"

start 'a wait can be interrupted, with a loop around it'
env -i PATH="$bin" FAKES="$work" FAKE_DELAY=2 "$root/heed" one >/dev/null 2>&1 &
builder=$!
sleep 0.3
run 130 timeout --preserve-status -s INT 0.5 bash -c 'for i in 1 2; do "$0" two; done; echo went on' "$root/heed"
expect '' "$out"
wait "$builder"

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
echo 2 >"$work/copy/train/main.cpp"
run 2 "$work/copy/heed" info
expect '*remove it' "$err"

# Each start of a built program must be faster than this, whatever else happens in the build folder.
at_once() { run 0 timeout 2 "$root/heed" "$@"; expect '' "$err"; }

built 'a built program starts without cmake, ninja, apt and the lock'
flock "$root/build/.lock" sleep 4 &
locker=$!
for command in --help --version config info 'train --help' 'train a.toml'; do
  # shellcheck disable=SC2086  # one word per argument
  at_once $command
done
[[ ! -e $calls ]] || fail "called $(<"$calls")"
kill "$locker"

built 'a built program starts at once while the tests are built'
env -i PATH="$bin" FAKES="$work" FAKE_TEST_DELAY=5 "$root/heed" test >/dev/null 2>&1 &
builder=$!
sleep 0.7
at_once train --help
wait "$builder"

built 'while the tests are built after an edit, the program comes first'
echo 2 >"$root/train/main.cpp"
env -i PATH="$bin" FAKES="$work" FAKE_DELAY=1 FAKE_TEST_DELAY=7 "$root/heed" test >/dev/null 2>&1 &
builder=$!
sleep 0.3
run 0 timeout 5 "$root/heed" --version
expect 2 "$out"
expect '*waiting*' "$err"
at_once --version
wait "$builder"

change() {  # change NAME COMMAND: afterwards the next start builds first, and the one after it does not
  built "a change is built first: $1"
  (cd "$root" && eval "$2")
  run 0 "$root/heed" --version
  called '--target heed$' || fail 'was not built'
  expect "$(<"$root/train/main.cpp")" "$out"
  rm "$calls"
  at_once --version
  [[ ! -e $calls ]] || fail "called $(<"$calls")"
}
change 'an edit' 'echo 2 >train/main.cpp'
change 'an edit of a header' 'echo "// 2" >>nn/gpt.hpp'
change 'an older source with its time' 'echo 0 >train/main.cpp; touch -d 2020-01-01 train/main.cpp'
change 'a new source' '>train/b.cpp'
change 'a script that is part of the program' '>train/plot.py'
change 'a deleted source' 'rm nn/gpt.hpp'
change 'a renamed source' 'mv nn/gpt.hpp nn/gpt2.hpp'
change 'CMakeLists.txt' 'echo "#" >>CMakeLists.txt'
change 'a setting of the build' 'echo HEED_CUDA:STRING=ON >>build/CMakeCache.txt'
change 'a program built by other means' 'sleep 1; echo >>build/bin/heed'

case_name='an edit during the build is built by the next start'
echo 4 >"$root/train/main.cpp"
# The build logs its call, then waits: the edit follows the call, however slow the machine is.
run 0 FAKE_DELAY=0.5 bash -c \
  '"$0" --version & until grep -q -e "--target heed$" "$2"; do sleep 0.02; done 2>/dev/null; echo 5 >"$1"; wait $!' \
  "$root/heed" "$root/nn/new.cpp" "$calls"
rm "$calls"
run 0 "$root/heed" --version
called '--target heed$' || fail 'was not built'

built 'what the program is not built from does not matter'
touch "$root/nn/gpt.hpp"
touch "$root"/data/{corpus.txt,.reader.cpp.swp,reader.cpp~} "$root/tests/CMakeLists.txt"
at_once --version
[[ ! -e $calls ]] || fail "called $(<"$calls")"

built 'after a failed build the program of the earlier sources is run with those only'
echo 2 >"$root/train/main.cpp"
run 1 FAKE_ERROR='no such thing' "$root/heed" --version
echo 1 >"$root/train/main.cpp"
rm "$calls"
at_once --version
[[ ! -e $calls ]] || fail "called $(<"$calls")"

built 'HEED_NO_BUILD=1 runs what is there'
echo 2 >"$root/train/main.cpp"
run 0 HEED_NO_BUILD=1 "$root/heed" --version
expect 1 "$out"
run 0 HEED_NO_BUILD=1 "$root/heed" test -R x
called '^ctest .*-R x$' || fail 'no ctest'
! called cmake || fail 'built'
run 0 HEED_NO_BUILD=0 "$root/heed" --version
expect 2 "$out"
rm -r "$root/build"
run 2 HEED_NO_BUILD=1 "$root/heed" --version
expect 'heed: */bin/heed is missing*unset HEED_NO_BUILD' "$err"

built 'empty RANK and WORLD_SIZE are no rank'
echo 2 >"$root/train/main.cpp"
run 0 RANK= WORLD_SIZE= OMPI_COMM_WORLD_SIZE= "$root/heed" --version
expect 2 "$out"

if ((EUID == 0)); then
  chmod 755 "$work" "$root"
  other=(setpriv --reuid=65534 --regid=65534 --clear-groups)
  built "someone else's checkout is run where its program is up to date, and refused where not"
  run 0 "${other[@]}" "$root/heed" train a.toml
  expect '*<train><a.toml>' "$out"
  expect '' "$err"
  echo 2 >"$root/train/main.cpp"
  >"$root/train/new.cpp"
  run 2 "${other[@]}" "$root/heed" train a.toml
  expect 'heed: *not built from the present sources (changed: train/main.cpp and 1 more)*heed info*HEED_NO_BUILD=1*' "$err"
  expect '' "$out"
  run 0 HEED_NO_BUILD=1 "${other[@]}" "$root/heed" --version
  expect 1 "$out"
  run 2 "${other[@]}" "$root/heed" test
  rm "$root/build/.built_from"
  run 2 "${other[@]}" "$root/heed" --version
  expect 'heed: *(changed: unknown, */.built_from is missing)*' "$err"
  rm -r "$root/build"
  run 2 "${other[@]}" "$root/heed" --version
  expect "heed: $root/build/bin/heed is missing and you may not write to *" "$err"
  [[ ! -e $calls ]] || fail "called $(<"$calls")"
fi

case_name='what the launcher takes for sources is what the build names'
sources=$(sed -n 's/^sources=(\(.*\))$/\1/p' "$1")
while IFS= read -r path; do
  for source in $sources; do
    [[ $path/ != "$source"/* ]] || continue 2
  done
  ! compgen -G "$(dirname "$1")/autograd/ops/*/$path" >/dev/null || continue  # a kernel of an operation with a folder
  fail "CMakeLists.txt names $path, the launcher knows only $sources"
done < <(grep -oE '[a-z_]+(/[a-z0-9_]+)*/[a-z0-9_<>$,:{}]+\.(cpp|cu)\b' "$(dirname "$1")/CMakeLists.txt")

if [[ -n ${2:-} ]]; then
  case_name='the linker does not write into the program that is started'
  cmp "$2/bin/heed" "$2/bin/linked/heed" || fail 'two programs'
  [[ ! $2/bin/heed -ef $2/bin/linked/heed ]] || fail 'one file'
fi

if ((EUID == 0)); then
  start 'root installs what is missing, once'
  run 0 FAKE_MISSING=libhwy-dev "$root/heed" info
  called '^apt-get install .* libhwy-dev' || fail 'not installed'
  ! called 'libfmt-dev' || fail 'installed what is there'

  start 'matplotlib is installed for plots, reports and sweeps only'
  fake python3 <<<'exit 1'
  missing=(env FAKE_MISSING=python3-matplotlib)
  run 0 "${missing[@]}" "$root/heed" train a.toml
  ! called apt-get || fail 'installed for a run'
  for command in plot report ablate; do
    run 0 "${missing[@]}" "$root/heed" "$command" a
    called '^apt-get install .* python3-matplotlib' || fail "not installed for $command"
    rm "$calls"
  done
  run 0 "$root/heed" ablate a.toml
  ! called . || fail 'installed what is there'
  run 0 "${missing[@]}" "$root/heed" test
  called '^apt-get install .* python3-matplotlib' || fail 'not installed for the tests'
  fake python3 </dev/null
  rm "$calls"
  run 0 "${missing[@]}" "$root/heed" plot a
  ! called . || fail 'installed though python3 has it'

  at_terminal() {  # at_terminal ANSWER: starts heed at a terminal where libhwy-dev is missing, and types the answer
    code=0
    shown=$(script -qec "env -i PATH='$bin' FAKES='$work' FAKE_MISSING=libhwy-dev '$root/heed' info" /dev/null <<<"$1") ||
      code=$?
  }
  if command -v script >/dev/null; then
    start 'at a terminal it asks first'
    at_terminal n
    [[ $code == 2 ]] || fail "exit code $code: $shown"
    expect "*install the missing packages by 'apt-get install *libhwy-dev'*[Y/n]*missing packages*" "$shown"
    [[ ! -e $calls ]] || fail "called $(<"$calls")"
    at_terminal y
    [[ $code == 0 ]] || fail "exit code $code: $shown"
    called '^apt-get install .* libhwy-dev' || fail 'not installed'
  fi

  start 'a user without sudo is told the exact line'
  chmod 777 "$work" "$root"
  user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
  run 2 FAKE_MISSING=libhwy-dev "${user[@]}" "$root/heed" info
  expect '*apt-get install -y --no-install-recommends libhwy-dev' "$err"
  [[ ! -e $calls ]] || fail "called $(<"$calls")"

  case_name='a user without sudo goes on without plots'
  chmod 755 "$work" "$root"
  fake python3 <<<'exit 1'
  start "$case_name"
  run 0 "$root/heed" info
  chmod -R a+rX "$root"
  run 0 FAKE_MISSING=python3-matplotlib "${user[@]}" "$root/heed" ablate a.toml
  expect '*As root: apt-get update && apt-get install -y --no-install-recommends python3-matplotlib*without plots' "$err"
  expect '*<ablate><a.toml>' "$out"
  fake python3 </dev/null
  chmod 777 "$work" "$root"

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
