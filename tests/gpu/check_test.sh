#!/usr/bin/env bash
# check_test.sh CHECK HEED [CUDA_TESTS]: tests check.sh without a GPU. The whole script runs in a bundle of fake programs:
# HEED trains on the CPU; it checks the arguments of the benchmarks, and their output is fake; the suites are those of
# CUDA_TESTS (built for the CUDA emulation), if given; PyTorch and compute-sanitizer are fakes. Then the test plants
# faults: check.sh must report each one as what it is, and still run everything else.
set -euo pipefail

check=$(readlink -f "$1")
export REAL_HEED REAL_TESTS
REAL_HEED=$(readlink -f "$2")
REAL_TESTS=${3:+$(readlink -f "$3")}
source=$(dirname "$(dirname "$(dirname "$check")")")
work=$(mktemp -d)
export TMPDIR=$work/tmp OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive CUDA_VISIBLE_DEVICES=
script=''
trap '[[ -z $script ]] || kill "$script" || true; rm -rf "$work"' EXIT
bundle=$work/bundle
bin=$bundle/bin
tools=$work/tools
mkdir -p "$bin" "$tools" "$TMPDIR" "$bundle/tests/reference" "$work/python/torch"
cp -r "$(dirname "$check")" "$source/tests/bench" "$bundle/tests"

# ---- Stand-ins -------------------------------------------------------------------------------------------------------
fake() {  # fake FILE <script
  { echo '#!/usr/bin/env bash'; cat; } >"$1"
  chmod +x "$1"
}
fake "$bin/heed" <<'SCRIPT'
[[ $* != *"${PLANT_HANG:-nothing}"* ]] || sleep 300
if [[ $* == *"${PLANT_DEAF:-nothing}"* ]]; then
  echo $$ >"$OUT.deaf"
  trap '' TERM
  for ((;;)); do sleep 0.1; done
fi
[[ $* != *"${PLANT_FAULT:-nothing}"* ]] || { echo 'heed: what failed'; exit 1; }
case "$*" in
  info)
    "$REAL_HEED" info | grep -Ev '^(CUDA|device) '
    printf 'CUDA          code for sm_90\n%s\n' "${PLANT_DEVICE-device        Fake card (sm_90, 8.0 GiB)}"
    ;;
  train*)
    options=()
    for argument; do
      [[ $argument == train.cuda_graph=* ]] || options+=("${argument/train.device=cuda/train.device=cpu}")
      [[ $argument != train.run_dir=* ]] || run=${argument#*=}
    done
    "$REAL_HEED" "${options[@]}" || exit
    [[ $* == *train.device=cuda* && $* == *"${PLANT_LOSS:-nothing}"* ]] || exit 0
    awk -F, -v OFS=, -v factor="${PLANT_FACTOR:-nan}" 'NR == 3 { $3 = factor == "nan" ? "nan" : $3 * factor } 1' \
      "$run/metrics.csv" >"$run/changed" && mv "$run/changed" "$run/metrics.csv"
    ;;
  bench*)
    # Exit code 5 means that only the device is missing, and that options, keys and names are valid.
    code=0
    message=$("$REAL_HEED" "$@" 2>&1) || code=$?
    ((code == 5)) || { echo "$message"; exit 1; }
    case "$*" in
      *--json*attention*)
        for size in 64 128; do
          for length in 256 512 1024 2048 4096 8192; do
            printf '{"shapes": "%s x %s, 12 heads of %s", "seconds": 0.001}\n' $((16384 / length)) $length $size
          done
        done | paste -sd , | sed 's/.*/{"operations": [&]}/'
        ;;
      *--json*) echo '{"seconds": [0.004], "tokens": 16384, "device": "Fake card", "peak_bytes": {"total": 1000}}' ;;
      *--config*) printf '%s\n' 'step          5.00 ms, 1 tokens/s' 'eager         6.00 ms' 'MFU           1.0 %' \
        'one step by operation, 4.00 ms (calls):' '  linear (16384, 384) (65, 384)    1 x 0.015 ms' ;;
      *) echo '  layer_norm (16384, 768)  0.0123 ms' ;;
    esac
    ;;
esac
SCRIPT
fake "$bin/cuda_tests" <<'SCRIPT'
# Runs some quick tests of CUDA_TESTS; PLANT_SUITES are suites that misbehave.
filter=${1#--gtest_filter=}
case "$*" in
  *list_tests)
    [[ ${PLANT_LISTING:-} != hangs ]] || sleep 300
    [[ -z $REAL_TESTS ]] || "$REAL_TESTS" --gtest_list_tests --gtest_filter='Cases/EveryOp*relu_*:TokenFault.*:Memory.*'
    printf '%s.\n  First\n' Quiet ${PLANT_SUITES:-}
    [[ ${PLANT_LISTING:-} != breaks ]] || { ulimit -c 0; kill -SEGV $$; }
    exit
    ;;
  *EveryOp*)
    [[ -n $REAL_TESTS ]] || filter=Quiet
    [[ -z $REAL_TESTS ]] || exec "$REAL_TESTS" "--gtest_filter=${filter}relu_*"
    ;;
  *TokenFault* | *Memory*) exec "$REAL_TESTS" "$@" ;;
esac
suite=${filter%.*}
echo "[ RUN      ] $suite.First"
if [[ $suite == Skipped ]]; then
  printf '[  SKIPPED ] Skipped.First (0 ms)\n[==========] 1 test from 1 test suite ran.\n'
  exit
fi
[[ $suite != Loud ]] || { head -c 1000000 /dev/zero | tr '\0' x; echo; }
printf '[       OK ] %s.First (0 ms)\n[ RUN      ] %s.Second\n' "$suite" "$suite"
case $suite in
  Hangs) sleep 300 ;;
  Deaf) trap '' TERM; for ((;;)); do sleep 1; done ;;
  Crashes) ulimit -c 0; kill -SEGV $$ ;;
  Sticky)  # an illegal access: every later call fails, too
    printf 'unknown file: Failure\nan illegal memory access\n[  FAILED  ] Sticky.Second (0 ms)\n'
    printf '[ RUN      ] Sticky.Third\n[  FAILED  ] Sticky.Third (0 ms)\n[==========] 3 tests from 1 test suite ran.\n'
    printf '[  FAILED  ] 2 tests, listed below:\n[  FAILED  ] Sticky.Second\n[  FAILED  ] Sticky.Third\n'
    exit 1
    ;;
esac
printf '[       OK ] %s.Second (0 ms)\n[==========] 2 tests from 1 test suite ran.\n' "$suite"
SCRIPT
fake "$tools/compute-sanitizer" <<'SCRIPT'
[[ $* == *'--print-limit 20 --error-exitcode 99'* ]] || { echo "other options: $*"; exit 1; }
tool=$2
while [[ $1 == --* ]]; do shift 2; done
[[ $tool != "${PLANT_UNUSABLE:-}" ]] || { echo 'Error: Device not supported'; exit 1; }
"$@" || exit
[[ " ${PLANT_FINDING:-} " != *" $tool "* ]] || {
  printf '========= %s\n' COMPUTE-SANITIZER 'Invalid __global__ read of size 4 bytes' 'ERROR SUMMARY: 3 errors'
  exit 99
}
echo '========= ERROR SUMMARY: 0 errors'
SCRIPT
fake "$tools/nvidia-smi" <<<'echo "1980 MHz, 3201 MHz"'
cat >"$work/python/torch/__init__.py" <<'PYTHON'
class cuda:
    is_available = staticmethod(lambda: True)
PYTHON
cat >"$bundle/tests/reference/torch_gpt.py" <<'PYTHON'
import json, sys
shapes = [word for word in sys.argv if word.count("x") == 3]
seconds = {shape: [0.002] for shape in shapes} if sys.argv[1] == "attention" else [0.006]
print(json.dumps({"seconds": seconds, "peak_bytes": 2000, "libraries_bytes": 0, "torch": "0"}))
PYTHON

# ---- Cases -----------------------------------------------------------------------------------------------------------
case_name=
use_results() {
  results=$1
  summary=$results/summary.txt
}
use_results "$work/results"
fail() { printf 'FAILED: %s: %s\n' "$case_name" "$*"; cat "$summary" "$results.output"; exit 1; }
begin() {  # begin NAME=VALUE...
  rm -rf "$results"
  mkdir "$results"  # else a wait for the summary could read that of the case before
  env OUT="$results" PATH="$tools:$PATH" PYTHONPATH="$work/python" "$@" bash "$bundle/tests/gpu/check.sh" \
    >"$results.output" 2>&1 &
  script=$!
}
ends_with() {  # ends_with CODE
  local code=0
  wait "$script" || code=$?
  script=''
  [[ $code == "$1" ]] || fail "exit code $code instead of $1"
}
run() {  # run CODE NAME=VALUE...
  begin "${@:2}"
  ends_with "$1"
}
await() {  # await COMMAND...
  for ((i = 0; i < 400; ++i)); do
    ! "$@" 2>/dev/null || return 0
    sleep 0.05
  done
  fail "this did not become true in time: $*"
}
says() { grep -qE -- "$1" "$summary" || fail "the summary does not say: $1"; }
result() { says "^$1 +$2 +[0-9]+  $3"; }     # result STEP RESULT DETAIL
deaf_is_gone() {  # or is a zombie: in a container, no process may wait for orphans
  ! grep -q ') [^Z] ' "/proc/$(cat "$results.deaf")/stat" 2>/dev/null || fail 'the program that ignores SIGTERM goes on'
}
count() { grep -cE "^\S+ +$1( |$)" "$summary" || true; }  # steps with this result

case_name='all is well'
run 0 CHECK_SECONDS=470
steps=$(grep -oE '[0-9]+ steps are done' "$summary" | grep -oE '^[0-9]+')
[[ $(count ok) == "$steps" ]] || fail 'a step is not ok'
seconds=$(grep -oE 'add up to [0-9]+' "$summary" | grep -oE '[0-9]+')
((seconds > 300 && seconds <= 470)) || fail "the limits add up to $seconds s"
order='info losses-f32 losses-bf16 baby-gpt-bf16 gpt2-124m-bf16 operations-bf16 tests.Quiet torch-gpt2-124m'
order+=' memcheck-f32'
seen=$(grep ' ok ' "$summary" | cut -d ' ' -f 1 | grep -xE "${order// /|}" | paste -sd ' ')
[[ $seen == "$order" ]] || fail 'another order'
result info ok 'device +Fake card'
result losses-f32 ok 'largest relative difference of a loss 0 of'
result tests.Quiet ok '2 tests passed, 0 skipped'
[[ -z $REAL_TESTS ]] || result tests.TokenFault ok '[1-9][0-9]* tests passed, 0 skipped'
[[ -z $REAL_TESTS ]] || result tests.EveryOpOnCudaAgain.8-of-8 ok '[1-9][0-9]* tests passed, 0 skipped'
result memcheck-operations ok ''
says '^gpt2-124m-bf16 +step +5.00 ms'
says '^baby-gpt-bf16 +linear .16384, 384. .65, 384. '
says '^torch-baby-gpt +heed is 1.50 x as fast'
says '^no step failed'
grep -q 'layer_norm.*0.0123 ms' "$results/benchmarks.txt" || fail 'no table of operations'
grep -q 'clocks after it: 1980 MHz' "$results/benchmarks.txt" || fail 'no clocks'
grep -q '^ RUN.*Quiet.First' <(tr -d '[' <"$results/log.txt") || fail 'no log'
grep -q 'libc.so' "$results/libraries.txt" || grep -q 'not a dynamic' "$results/libraries.txt" || fail 'no libraries'
(($(find "$results" -type f | wc -l) <= 8)) || fail 'more files than come back from a rented machine'

# This case mostly waits, so it runs during the next one.
use_results "$work/late"
begin CHECK_SECONDS=10 PLANT_HANG=baby_gpt
late_script=$script

case_name='faults of every kind'
use_results "$work/results"
begin CHECK_STEP_SECONDS=8 PLANT_SUITES='Crashes Deaf Hangs Loud Skipped Sticky' PLANT_LOSS=eager-f32 \
  PLANT_FACTOR=1.01 PLANT_FAULT='--dtype bf16' PLANT_FINDING='memcheck initcheck' PLANT_UNUSABLE=synccheck PYTHONPATH= \
  PLANT_LISTING=breaks PLANT_DEAF=cpu-bf16
await grep -qE '^losses-bf16 +too long' "$summary"
deaf_is_gone
ends_with 1
result cuda_tests failed 'the list of suites is incomplete: --gtest_list_tests ended with exit code 139'
result tests.Hangs 'too long' 'in Hangs.Second'
result tests.Deaf 'too long' 'in Deaf.Second'
result tests.Crashes failed 'signal 11 in Crashes.Second'
result tests.Sticky failed '2 tests failed, the first was Sticky.Second'
result tests.Skipped skipped '0 tests passed, 1 skipped'
result tests.Loud ok '2 tests'
result losses-f32 failed 'captured steps are not those'
result operations-bf16 failed 'heed: what failed'
result memcheck-f32 failed 'the first finding: ========= Invalid __global__ read'
result initcheck-bf16 look 'the first finding: ========= Invalid __global__ read'
result synccheck-f32 skipped 'compute-sanitizer cannot use this device'
result torch-attention skipped 'python3 has no PyTorch'
# All others: 6 planted suites are more, and these are not ok: 5 of them, both losses, the operations, 3 of memcheck,
# 2 of initcheck, 2 of synccheck, 4 of PyTorch.
[[ $(count ok) == $((steps + 6 - 5 - 2 - 1 - 3 - 2 - 2 - 4)) ]] || fail 'a fault has cost another step'
says '^A STEP FAILED: losses-f32 losses-bf16 operations-bf16 .*tests.Crashes'
(($(wc -c <"$results/log.txt") < 900000)) || fail 'the log is not short'
grep -q 'bytes are left out' "$results/log.txt" || fail 'the log does not say what it leaves out'

case_name='the deadline'
use_results "$work/late"
code=0
wait "$late_script" || code=$?
[[ $code == 0 ]] || fail "exit code $code"
result losses-f32 ok ''
result baby-gpt-bf16 'cut off' ''
result memcheck-f32 'cut off' 'no time left'
says '^no step failed'
use_results "$work/results"

case_name='a loss that is off, in the graph as well; a loss that is no number'
for loss in 1.01 nan; do
  begin PLANT_LOSS="-f32" PLANT_FACTOR=$loss PLANT_DEAF=baby_gpt
  await grep -qE '^baby-gpt-bf16 +running' "$summary"
  result losses-f32 failed 'largest relative difference'
  result losses-bf16 ok ''
  says '^gpt2-124m-bf16 +to come'
  case_name='the check is ended'
  kill -TERM $script
  ends_with 1
  deaf_is_gone
  result baby-gpt-bf16 'cut off' 'the check was ended'
  result memcheck-f32 'cut off' 'the check was ended'
  result losses-bf16 ok ''
  says 'THE CHECK WAS ENDED'
done

case_name='the check is killed'
begin PLANT_HANG=baby_gpt
await grep -qE '^baby-gpt-bf16 +running' "$summary"
kill -KILL $script
wait $script 2>/dev/null || true
script=''
says '^baby-gpt-bf16 +running'
says '^tests.Quiet +to come'
result losses-f32 ok 'largest'
says '^3 of [0-9]+ steps are done'
kill "$(cat "$TMPDIR"/*/baby-gpt-bf16.pid)"

case_name='a library of the tests and tools are missing'
echo 'int planted(void) { return 0; }' >"$work/planted.c"
echo 'int planted(void); int main() { return planted(); }' >"$work/main.c"
mkdir "$work/far"
cc -shared -o "$work/far/libplanted.so" "$work/planted.c"
mv "$bin/cuda_tests" "$work/cuda_tests"
cc -o "$bin/cuda_tests" "$work/main.c" "$work/far/libplanted.so"
patch_needed() { cc -o "$1" "$work/main.c" -L"$work/far" -lplanted; }
patch_needed "$bin/cuda_tests"
mkdir "$work/few"
for folder in /bin /usr/bin /usr/local/bin; do ln -sf "$folder"/* "$work/few/"; done
rm -f "$work/few"/{compute-sanitizer,nvcc}
run 0 CHECK_SEARCH="$work/few" PATH="$work/few" PLANT_HANG=
result cuda_tests skipped 'libplanted.so is missing'
result racecheck-f32 skipped 'there is no compute-sanitizer'
result operations-bf16 ok ''
says '^no step failed'
grep -q 'libplanted.so => not found' "$results/libraries.txt" || fail 'the libraries do not show it'
case_name='a library is found by searching'
begin CHECK_SEARCH="$work/far" PLANT_HANG=info
await grep -q 'libplanted.so => /' "$results/libraries.txt"
kill -TERM $script
wait $script || true
script=''

case_name='heed does not start for want of a library'
mv "$bin/heed" "$work/heed"
cp "$bin/cuda_tests" "$bin/heed"
run 1 CHECK_SEARCH="$work/few"
result info skipped 'libplanted.so is missing'
result baby-gpt-bf16 skipped 'heed does not start: libplanted.so is missing'
mv "$work/heed" "$bin/heed"
mv "$work/cuda_tests" "$bin/cuda_tests"
case_name='heed info hangs'
run 1 PLANT_HANG=info CHECK_STEP_SECONDS=1
result info 'too long' ''
result tests.Quiet skipped 'heed does not start'

case_name='the list of the tests hangs'
begin PLANT_LISTING=hangs PLANT_HANG=bench CHECK_STEP_SECONDS=1
await grep -qE '^cuda_tests ' "$summary"
says '^cuda_tests +to come'
await grep -qE '^cuda_tests +failed' "$summary"
result cuda_tests failed 'the list of suites is incomplete: --gtest_list_tests ended with exit code 124'
says '^A STEP FAILED.* cuda_tests'
kill -TERM $script
wait $script || true
script=''

case_name='no device'
run 77 PLANT_DEVICE='device        none: no CUDA device found (no driver)'
grep -q '^check: nothing to check on: .*no CUDA device found .no driver' "$results.output" || fail 'no reason'
result losses-f32 skipped 'nothing to check on: no CUDA'
case_name='the reader of the output leaves'
rm "$results.output"
mkfifo "$results.output"
true <"$results.output" &
begin PLANT_DEVICE='device        none: no CUDA device found (no driver)'
wait "$script" || true
script=''
rm "$results.output"
: >"$results.output"
result tests.Quiet skipped 'nothing to check on: no CUDA'
says '^no step failed'
case_name='a device that this build has no code for'
run 1 PLANT_DEVICE=$'device        Old card (sm_70, 8.0 GiB)\ndevice        none: this heed has no code for it'
result losses-f32 skipped 'nothing to check on: this heed has no code for it'
echo "check: all cases passed in $SECONDS s"
