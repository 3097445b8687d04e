#!/usr/bin/env bash
# check.sh [FOLDER OF heed AND cuda_tests]: runs everything in heed that needs a CUDA device, in under eight minutes.
#
# Run it in a bundle (cmake --preset bundle && cmake --build --preset bundle) or in a clone with a build folder. The most
# informative steps come first: losses against the CPU, benchmarks of whole training steps and of the operations, the
# tests of the CUDA backend (a process for each suite, so that an illegal access ends only that suite), PyTorch if
# python3 has it, and compute-sanitizer. Each step has a time limit, and the limits add up to less than the deadline. A
# step that fails or takes too long stops no other. The results are in ${OUT:-gpu-results}: summary.txt, benchmarks.txt,
# log.txt and libraries.txt, updated after each step (steps.sh lists the possible results of a step). Exit code 1 if a
# step failed, 2 if it cannot start, 77 without a device.
#
# Environment: CHECK_SECONDS is the deadline. check_test.sh also sets CHECK_STEP_SECONDS, a lower limit for each step, and
# CHECK_SEARCH, the folder that is searched for missing libraries.
set -uo pipefail

here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
root=$(dirname "$(dirname "$here")")
deadline=${CHECK_SECONDS:-470}
step_seconds=${CHECK_STEP_SECONDS:-0}
loss_tolerance_f32=1e-4  # relative difference of a loss on the GPU from that on the CPU, over 20 steps
loss_tolerance_bf16=2e-2

programs=${1:-$root/bin}
[[ -x $programs/heed ]] || programs=$root/build/bin
[[ -x $programs/heed ]] || { echo "check: no heed in $root/bin or $root/build/bin: name its folder"; exit 2; }
programs=$(readlink -f "$programs")
heed=$programs/heed

out=${OUT:-gpu-results}
mkdir -p "$out" || exit 2
out=$(readlink -f "$out")
# shellcheck source=tests/gpu/steps.sh
source "$here/steps.sh"
: >"$log"
: >"$benchmarks"
cd "$work" || exit 1

# ---- Shared libraries ------------------------------------------------------------------------------------------------
# PyTorch and the CUDA toolkit have cuBLASLt and NCCL.
library_folders() {
  local nvcc
  timeout 10 python3 - 2>/dev/null <<'PYTHON'
import importlib.util, pathlib
for package in importlib.util.find_spec("nvidia").submodule_search_locations:
    print(*sorted(pathlib.Path(package).glob("*/lib")), sep="\n")
PYTHON
  nvcc=$(command -v nvcc) && dirname "$(dirname "$(readlink -f "$nvcc")")" | sed 's,$,/lib64,'
  echo /usr/local/cuda/lib64
}
libraries_of() { timeout 5 env LD_TRACE_LOADED_OBJECTS=1 "$1" 2>&1; }
missing_libraries() { libraries_of "$1" | awk '/not found/ { print $1 }'; }
# add_missing PROGRAM: searches all folders for libraries that the loader does not find, as a last resort.
add_missing() {
  local name folder top=${CHECK_SEARCH:-/}
  for name in $(missing_libraries "$1"); do
    folder=$(timeout 20 find "$top" -name "$name" -not -path '/proc/*' -printf '%h\n' 2>/dev/null | head -n 1)
    [[ -z $folder ]] || LD_LIBRARY_PATH+=:$folder
  done
}
LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(library_folders | paste -sd :)
export LD_LIBRARY_PATH
add_missing "$heed"
[[ ! -x $programs/cuda_tests ]] || add_missing "$programs/cuda_tests"
for program in heed cuda_tests; do
  printf '%s\n' "==== $program" "$(libraries_of "$programs/$program")"
done >"$out/libraries.txt"

# ---- What the steps do -----------------------------------------------------------------------------------------------
cat >tiny.toml <<'TOML'
# Odd lengths, groups of heads, dropout and micro-batches; nothing is evaluated.
[model]
num_layers = 2
d_model = 64
num_heads = 4
num_kv_heads = 2
seq_len = 33
dropout = 0.1
attention_dropout = 0.1
[data]
source = "text"
path = "text.txt"
tokenizer = "char"
val_fraction = 0.0
[optim]
warmup_steps = 5
[train]
batch_size = 8
micro_batch_size = 4
plot = false
TOML
awk 'BEGIN { srand(7); for (i = 0; i < 20000; ++i) printf "%c", 97 + int(26 * rand() * rand()) }' >text.txt

export heed work
show_info() {
  local info code=0
  timeout 10 nvidia-smi || true
  info=$("$heed" info 2>&1) || code=$?
  printf '%s\n' "$info"
  grep '^device' <<<"$info" | tail -n 1  # the last line is the one in the summary
  return $code
}

# measure COMMAND...: a benchmark, and the clocks right after it.
measure() {
  "$@" || return
  timeout 5 nvidia-smi --query-gpu=clocks.sm,clocks.mem,power.draw,temperature.gpu --format=csv,noheader 2>/dev/null |
    sed 's/^/clocks after it: /' || true
}

heed_run() {  # heed_run NAME key=value...
  echo "training of $1" >&2
  "$heed" train "$work/tiny.toml" "train.run_dir=$work/$1" "${@:2}"
}
losses() { awk -F, 'NR == 1 { for (i = 1; i <= NF; ++i) column[$i] = i; next }
                    { print $column["train_loss"], $column["grad_norm"] }' "$work/$1/metrics.csv"; }

# compare_losses PRECISION TOLERANCE: eager and captured steps on the card, bit for bit, and both against the CPU.
compare_losses() {
  local common=("train.steps=20" "train.precision=$1")
  export OMP_NUM_THREADS=2
  heed_run "cpu-$1" train.device=cpu "${common[@]}" >/dev/null &&
    heed_run "eager-$1" train.device=cuda train.cuda_graph=false "${common[@]}" >/dev/null &&
    heed_run "graph-$1" train.device=cuda "${common[@]}" >/dev/null || return 1
  if ! cmp <(losses "eager-$1") <(losses "graph-$1"); then
    echo "captured steps are not those that were not captured"
    return 1
  fi
  paste -d ' ' <(losses "cpu-$1") <(losses "graph-$1") | awk -v most="$2" '
    function is_number(x) { return x ~ /^[0-9][0-9.]*(e[-+]?[0-9]+)?$/ }
    { print "step", NR, "loss", $1, "on the CPU", $3, "on the card; gradient norm", $2, $4
      if (!is_number($1) || !is_number($3)) bad = 1
      d = ($3 - $1) / $1; if (d < 0) d = -d; if (d > worst) worst = d }
    END { print "largest relative difference of a loss", worst + 0, "of", most
          exit bad || NR != 20 || worst > most }'
}

# sanitize TOOL NAME COMMAND...
sanitize() {
  local tool code=0 only_heed=() output=$work/$1-$2.txt
  export OMP_NUM_THREADS=2
  tool=$(command -v compute-sanitizer ||
    ls /usr/local/cuda/bin/compute-sanitizer /opt/nvidia/*/compute-sanitizer 2>/dev/null)
  [[ -n $tool ]] || { echo "there is no compute-sanitizer here"; return 77; }
  # The other two must see what the kernels of cuBLASLt write.
  [[ $1 == memcheck || $1 == initcheck ]] || only_heed=(--kernel-name kns=heed)
  "${tool%%$'\n'*}" --tool "$1" --print-limit 20 --error-exitcode 99 "${only_heed[@]}" "${@:3}" | tee "$output" ||
    code=$?
  if grep -q 'Device not supported' "$output"; then
    echo "compute-sanitizer cannot use this device"
    return 77
  fi
  if grep -q ' 0 tests from' "$output"; then
    echo "the filter leaves no test"
    return 1
  fi
  if [[ $code == 99 ]]; then
    echo "the first finding: $(grep -aE '^========= [A-Z]' "$output" | grep -avE -m 1 'COMPUTE-SANITIZER|SUMMARY')"
  fi
  # It may not know all the ways in which the kernels of cuBLASLt write memory.
  if [[ $1 == initcheck && $code == 99 ]]; then return 75; fi
  return "$code"
}

export TORCH_BESIDE=$root/tests/bench/compare_torch.py
torch_beside() {  # torch_beside ARGUMENT...: of compare_torch.py
  python3 -B -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null ||
    { echo "python3 has no PyTorch that sees the device"; return 77; }
  python3 -B "$TORCH_BESIDE" "$@" --heed "$heed" --device cuda --rounds 1
}
cuda_tests=$programs/cuda_tests
# show_listing FAULT: the step that reports an incomplete list of suites.
show_listing() {
  cat "$work/listing.txt" "$work/listing_errors.txt"
  echo "$1"
  return 1
}
export -f show_info measure heed_run losses compare_losses sanitize torch_beside show_listing

# ---- The steps -------------------------------------------------------------------------------------------------------
# Runs each suite of cuda_tests in a separate process. The suites that run every operation come first, in several
# processes. If the list of suites is incomplete, a step fails, and the suites that it names run nevertheless.
listing_fault=
timeout -k 3 "$(limit_of 30)" "$cuda_tests" --gtest_list_tests >listing.txt 2>listing_errors.txt </dev/null ||
  listing_fault="the list of suites is incomplete: --gtest_list_tests ended with exit code $?"
suites=$(awk '/^[^ ]+[.]( |$)/ { print !/EveryOp/, $1 }' listing.txt | sort | cut -d ' ' -f 2)
[[ -n $suites || -n $listing_fault ]] || listing_fault='the list of the suites is empty'
shards=8
test_suites() {
  local suite shard run=(env OMP_NUM_THREADS=2 "$cuda_tests")
  [[ -z $listing_fault ]] || step cuda_tests 10 show_listing "$listing_fault"
  for suite in $suites; do
    if [[ $suite == *EveryOp* ]]; then
      for ((shard = 0; shard < shards; ++shard)); do
        step "tests.${suite##*/}$((shard + 1))-of-$shards" 80 env GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard \
          "${run[@]}" "--gtest_filter=$suite*"
      done
    else
      suite=${suite%.}
      step "tests.${suite//\//-}" 60 "${run[@]}" "--gtest_filter=$suite.*"
    fi
  done
}

sanitizers() {
  local tool precision
  # In this suite each tensor is a separate allocation, so that memcheck finds any access outside of it.
  step memcheck-operations 120 sanitize memcheck operations "$cuda_tests" --gtest_filter='*EveryOpOnCudaAgain.SameBits*'
  for tool in memcheck racecheck synccheck initcheck; do
    # The first step launches each kernel, the others run as a CUDA graph.
    for precision in f32 bf16; do
      step "$tool-$precision" 100 sanitize $tool $precision "$heed" train "$work/tiny.toml" \
        "train.run_dir=$work/$tool-$precision" train.device=cuda train.steps=3 "train.precision=$precision"
    done
  done
}

baby=$root/tests/bench/baby_gpt.toml
gpt2=$root/tests/bench/gpt2_124m.toml
gpt2_settings=(train.batch_size=16 data.vocab_size=50304)
checks() {
  alone info 20 show_info
  can_go_on || return
  wave 40 2
  step losses-f32 40 compare_losses f32 $loss_tolerance_f32
  step losses-bf16 40 compare_losses bf16 $loss_tolerance_bf16
  finish
  alone_bench baby-gpt-bf16 25 measure "$heed" bench --config "$baby" train.device=cuda train.precision=bf16
  alone_bench gpt2-124m-bf16 40 measure "$heed" bench --config "$gpt2" "${gpt2_settings[@]}" train.device=cuda \
    train.precision=bf16
  alone_bench operations-bf16 45 measure "$heed" bench --device cuda --dtype bf16
  wave 90 4 150
  test_suites
  finish
  alone_bench torch-gpt2-124m 40 torch_beside step "$gpt2" "${gpt2_settings[@]}" --dtype bf16
  alone_bench torch-baby-gpt 25 torch_beside step "$baby" --dtype bf16
  alone_bench torch-attention 35 torch_beside attention
  alone_bench baby-gpt-f32 15 measure "$heed" bench --config "$baby" train.device=cuda
  alone_bench operations-f32 30 measure "$heed" bench --device cuda \
    attention cross_entropy layer_norm linear linear_gelu linear_cross_entropy
  wave 45 4 150
  sanitizers
  finish
  wave 0 1 120  # uses only the time that the other waves have left
  bench torch-gpt2-124m-compiled 120 torch_beside step "$gpt2" "${gpt2_settings[@]}" --dtype bf16 --compile
  finish
}

# Whether heed starts and finds a device; otherwise `problem` says why not.
problem=
can_go_on() {
  ((!is_planning)) || return 0
  if [[ $(result_of info) != ok ]]; then
    problem="heed does not start: $(detail_of info)"
    return 1
  fi
  problem=$(grep -E '^(CUDA +off|device +none):' "$work/info.log")
  problem=${problem:+nothing to check on: ${problem##*: }}
  [[ -z $problem ]]
}

checks
is_planning=0
write_summary
checks
if [[ -n $problem ]]; then
  skip_rest "$problem"
  echo "check: $problem"
  # It is a failure if heed does not start, or if there is a GPU that it cannot use.
  if [[ $problem != nothing* ]] || grep -q '(sm_' "$work/info.log"; then exit 1; else exit 77; fi
fi
cat "$out/summary.txt"
! grep -q '^A STEP FAILED' "$out/summary.txt"
