#!/usr/bin/env bash
# check.sh [FOLDER OF heed AND cuda_tests]: everything of heed that wants a CUDA device, in under eight minutes.
#
# Runs in a bundle (cmake --build build --target bundle) or beside a build folder. Checks first: the tests of the CUDA
# backend, short runs against the CPU, compute-sanitizer, all at once; then the benchmarks, one after the other, and
# PyTorch beside them where python3 has it. A step that fails or takes too long stops no other. Under ${OUT:-gpu-results}:
# summary.txt, benchmarks.txt and log.txt. Exit code 1 if a step failed, 77 without a device.
set -uo pipefail

here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
root=$(dirname "$(dirname "$here")")
out=${OUT:-gpu-results}
deadline=${CHECK_SECONDS:-470}  # no step runs past it
loss_tolerance_f32=1e-4         # of a loss on the card against that on the CPU, relative, over 20 steps
loss_tolerance_bf16=2e-2

programs=${1:-$root/bin}
[[ -x $programs/heed ]] || programs=$root/build/bin
[[ -x $programs/heed ]] || { echo "check: no heed in $root/bin or $root/build/bin: name its folder"; exit 2; }
programs=$(readlink -f "$programs")
heed=$programs/heed

# cuBLASLt comes with the toolkit, or with PyTorch.
library_folders() {
  local nvcc
  nvcc=$(command -v nvcc) && dirname "$(dirname "$(readlink -f "$nvcc")")" | sed 's,$,/lib64,'
  echo /usr/local/cuda/lib64
  python3 - 2>/dev/null <<'PYTHON'
import importlib.util, pathlib
for package in importlib.util.find_spec("nvidia").submodule_search_locations:
    print(*sorted(pathlib.Path(package).glob("*/lib")), sep="\n")
PYTHON
}
LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$(library_folders | paste -sd :)
export LD_LIBRARY_PATH

info=$("$heed" info 2>&1) || { echo "check: heed does not start: $info"; exit 1; }
if problem=$(grep -E '^(CUDA +off|device +none):' <<<"$info"); then
  echo "check: nothing to check on: ${problem##*: }"
  # A card that is there and cannot be used is a fault.
  if grep -q '(sm_' <<<"$info"; then exit 1; else exit 77; fi
fi

mkdir -p "$out"
out=$(readlink -f "$out")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
log=$out/log.txt
benchmarks=$out/benchmarks.txt
printf '%s\n' "$info" >"$log"
: >"$benchmarks"
cd "$work" || exit 1

# ---- Steps -----------------------------------------------------------------------------------------------------------
names=()

# start NAME SECONDS COMMAND...: in the background, at most so long; 77 stands for "cannot be done here".
start() {
  local name=$1 limit=$2
  shift 2
  names+=("$name")
  {
    local begin=$SECONDS left=$((deadline - SECONDS)) code=0
    if ((left < 5)); then
      echo "no time left" >"$work/$name.log"
      code=77
    else
      timeout -k 5 $((limit < left ? limit : left)) bash -uo pipefail -c '"$@"' bash "$@" >"$work/$name.log" 2>&1 ||
        code=$?
    fi
    echo "$code $((SECONDS - begin))" >"$work/$name.result"
  } &
}

# Those that were started end here, and their output goes into the log.
finish() {
  local name code seconds
  wait
  for name in "${names[@]}"; do
    [[ -f $work/$name.result && ! -f $work/$name.told ]] || continue
    : >"$work/$name.told"
    read -r code seconds <"$work/$name.result"
    { printf '\n==== %s: exit code %s after %s s\n' "$name" "$code" "$seconds"; cat "$work/$name.log"; } >>"$log"
    printf '%-28s %s\n' "$name" "exit code $code after $seconds s"
  done
}

# bench NAME SECONDS COMMAND...: alone on the machine; its output is a result.
bench() {
  start "$@"
  finish
  { printf '\n==== %s\n' "$1"; cat "$work/$1.log"; } >>"$benchmarks"
}

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
heed_run() {  # heed_run NAME key=value...
  "$heed" train "$work/tiny.toml" "train.run_dir=$work/$1" "${@:2}"
}
losses() { awk -F, 'NR == 1 { for (i = 1; i <= NF; ++i) column[$i] = i; next }
                    { print $column["train_loss"], $column["grad_norm"] }' "$work/$1/metrics.csv"; }

# compare_losses PRECISION TOLERANCE: eager and captured steps on the card, bit for bit, and both against the CPU.
compare_losses() {
  local common=("train.steps=20" "train.precision=$1")
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
    END { print "largest relative difference of a loss", worst, "of", most
          exit bad || NR != 20 || worst > most }'
}

# sanitize TOOL NAME COMMAND...
sanitize() {
  local tool code=0 only_heed=() output=$work/$1-$2.txt
  tool=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer /opt/nvidia/*/compute-sanitizer 2>/dev/null)
  [[ -n $tool ]] || { echo "there is no compute-sanitizer here"; return 77; }
  # The other two must see what the kernels of cuBLASLt write.
  [[ $1 == memcheck || $1 == initcheck ]] || only_heed=(--kernel-name kns=heed)
  "${tool%%$'\n'*}" --tool "$1" --error-exitcode 99 "${only_heed[@]}" "${@:3}" | tee "$output" || code=$?
  if grep -q 'Device not supported' "$output"; then
    echo "compute-sanitizer cannot use this device"
    return 77
  fi
  if grep -q ' 0 tests from' "$output"; then
    echo "the filter leaves no test"
    return 1
  fi
  return "$code"
}

export TORCH_BESIDE=$root/tests/bench/compare_torch.py
torch_beside() {  # torch_beside ARGUMENT...: of compare_torch.py
  python3 -B -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null ||
    { echo "python3 has no PyTorch that sees the device"; return 77; }
  python3 -B "$TORCH_BESIDE" "$@" --heed "$heed" --device cuda --rounds 1
}
export -f heed_run losses compare_losses sanitize torch_beside

# ---- The checks, all at once -----------------------------------------------------------------------------------------
export OMP_NUM_THREADS=2
shards=4
for ((shard = 0; shard < shards; ++shard)); do
  start "cuda_tests-$((shard + 1))-of-$shards" 200 \
    env GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard "$programs/cuda_tests" --gtest_brief=1
done
start losses-f32 100 compare_losses f32 $loss_tolerance_f32
start losses-bf16 100 compare_losses bf16 $loss_tolerance_bf16
for tool in memcheck racecheck synccheck initcheck; do
  # The first step is given to the device one by one, the others as a graph.
  for precision in f32 bf16; do
    start "$tool-$precision" 150 sanitize $tool $precision "$heed" train "$work/tiny.toml" \
      "train.run_dir=$work/$tool-$precision" train.device=cuda train.steps=3 "train.precision=$precision"
  done
done
# Here each tensor is an allocation of its own, so that an access outside of it shows.
start memcheck-operations 200 sanitize memcheck operations "$programs/cuda_tests" --gtest_brief=1 \
  --gtest_filter='*EveryOpOnCudaAgain.SameBits*'
finish

# ---- The benchmarks --------------------------------------------------------------------------------------------------
unset OMP_NUM_THREADS
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem,power.draw --format=csv >>"$benchmarks" 2>/dev/null
baby=$root/tests/bench/baby_gpt.toml
gpt2=$root/tests/bench/gpt2_124m.toml
gpt2_settings=(train.batch_size=16 data.vocab_size=50304)
bench baby-gpt-bf16 40 "$heed" bench --config "$baby" train.device=cuda train.precision=bf16
bench gpt2-124m-bf16 60 "$heed" bench --config "$gpt2" "${gpt2_settings[@]}" train.device=cuda train.precision=bf16
bench operations-bf16 80 "$heed" bench --device cuda --dtype bf16
bench baby-gpt-f32 40 "$heed" bench --config "$baby" train.device=cuda
bench operations-f32 60 "$heed" bench --device cuda attention cross_entropy layer_norm linear linear_gelu
bench torch-attention 60 torch_beside attention
bench torch-gpt2-124m 70 torch_beside update "$gpt2" "${gpt2_settings[@]}" --dtype bf16
bench torch-baby-gpt 40 torch_beside update "$baby" --dtype bf16
bench torch-gpt2-124m-compiled 120 torch_beside update "$gpt2" "${gpt2_settings[@]}" --dtype bf16 --compile

# ---- The table -------------------------------------------------------------------------------------------------------
failed=0
{
  printf '\n%-28s %-8s %7s  %s\n' step result seconds 'last line'
  for name in "${names[@]}"; do
    read -r code seconds <"$work/$name.result"
    case $code in
      0) result=ok ;;
      77) result=skipped ;;
      124 | 137) result='too long' failed=1 ;;
      *) result=failed failed=1 ;;
    esac
    printf '%-28s %-8s %7s  %s\n' "$name" "$result" "$seconds" "$(grep -v '^ *$' "$work/$name.log" | tail -n 1 | cut -c 1-90)"
  done
  for name in baby-gpt-bf16 baby-gpt-f32 gpt2-124m-bf16; do
    grep -E '^(step|eager|MFU|attention) ' "$work/$name.log" | sed "s/^/$name  /"
  done
  printf '%s s in all; %s\n' "$SECONDS" "$([[ $failed == 0 ]] && echo 'no step failed' || echo 'A STEP FAILED')"
} | tee "$out/summary.txt"
! grep -q 'A STEP FAILED' "$out/summary.txt"
