#!/usr/bin/env bash
# check_test.sh CHECK: what check.sh makes of steps that succeed, fail, hang and cannot be done, with a fake heed.
set -euo pipefail

check=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bin=$work/bin
tools=$work/tools
mkdir "$bin" "$tools"

fake() {  # fake FILE <script
  { echo '#!/usr/bin/env bash'; cat; } >"$1"
  chmod +x "$1"
}
fake "$bin/heed" <<'SCRIPT'
case "$*" in
  info) printf 'CUDA          code for sm_90\n%s\n' "${FAKE_DEVICE-device        Fake card (sm_90, 8.0 GiB)}" ;;
  *train.device=cpu*) loss=1.25 ;;
  *cuda_graph=false*) loss=${FAKE_LOSS:-1.250001} ;;
  train*) loss=${FAKE_GRAPH_LOSS:-${FAKE_LOSS:-1.250001}} ;;
  bench*"${FAKE_FAILING:-nothing}"*) echo 'heed: what failed'; exit 1 ;;
  bench*--config*) printf 'step          5.00 ms, 1 tokens/s\neager         6.00 ms, 1 tokens/s\nMFU  1 %%\n' ;;
  bench*) echo '  layer_norm (16384, 768)  0.0123 ms' ;;
esac
if [[ $1 == train ]]; then
  for argument; do [[ $argument == train.run_dir=* ]] && run=${argument#*=}; done
  mkdir -p "$run"
  echo step,tokens,train_loss,val_loss,learning_rate,grad_norm,seconds >"$run/metrics.csv"
  for ((i = 1; i <= ${FAKE_UPDATES:-20}; ++i)); do echo "$i,1,$loss,,0.1,2.5,$RANDOM"; done >>"$run/metrics.csv"
fi
SCRIPT
fake "$bin/cuda_tests" <<'SCRIPT'
sleep "${FAKE_SLEEP:-0}"
echo "shard ${GTEST_SHARD_INDEX:-} of ${GTEST_TOTAL_SHARDS:-}"
[[ $* != *filter* ]] || echo "[==========] ${FAKE_FILTERED:-9} tests from ${FAKE_FILTERED:-9} test suites ran."
exit "${FAKE_TESTS:-0}"
SCRIPT
fake "$tools/compute-sanitizer" <<'SCRIPT'
while [[ $1 == --* ]]; do shift 2; done
"$@" || exit
echo "${FAKE_SANITIZER:-ERROR SUMMARY: 0 errors}"
exit "${FAKE_SANITIZER_CODE:-0}"
SCRIPT
fake "$tools/nvidia-smi" <<<'echo "name, Fake card"'
fake "$tools/python3" <<<'exit 1'  # no PyTorch

case_name=
fail() { printf 'FAILED: %s: %s\n' "$case_name" "$*"; cat "$work/output"; exit 1; }
run() {  # run CODE [NAME=VALUE...]
  local code=0 want=$1
  rm -rf "$work/results"
  env OUT="$work/results" PATH="$tools:$PATH" "${@:2}" bash "$check" "$bin" >"$work/output" 2>&1 || code=$?
  [[ $code == "$want" ]] || fail "exit code $code instead of $want"
}
says() { grep -qE -- "$1" "$work/output" || fail "does not say: $1"; }
result() { says "^$1 +$2 +[0-9]+ "; }  # result STEP ok|failed|…

case_name='all is well, but there is no PyTorch'
run 0
result cuda_tests-2-of-4 ok
result losses-f32 ok
result initcheck-bf16 ok
result operations-bf16 ok
result torch-attention skipped
says '^gpt2-124m-bf16 +step +5.00 ms'
says 'no step failed'
for file in summary benchmarks log; do [[ -s $work/results/$file.txt ]] || fail "no $file.txt"; done
grep -q 'layer_norm.*0.0123 ms' "$work/results/benchmarks.txt" || fail 'no table'
grep -q 'shard 3 of 4' "$work/results/log.txt" || fail 'no log'

case_name='no device'
run 77 FAKE_DEVICE='device        none: no CUDA device found (no driver)'
says '^check: .*no CUDA device found .no driver'
[[ $(wc -l <"$work/output") == 1 && ! -e $work/results ]] || fail 'more than a line'
case_name='a device that this build has no code for'
run 1 FAKE_DEVICE=$'device        Old card (sm_70, 8.0 GiB)\ndevice        none: this heed has no code for it'
says '^check: .*no code for it'

case_name='tests fail, and everything else is done'
run 1 FAKE_TESTS=1
result cuda_tests-1-of-4 failed
result baby-gpt-bf16 ok
says 'A STEP FAILED'

case_name='a benchmark fails'
run 1 FAKE_FAILING='--dtype bf16'
result operations-bf16 failed
result operations-f32 ok

case_name='a loss that is off on the card'
run 1 FAKE_LOSS=1.26
result losses-f32 failed
result losses-bf16 ok
case_name='a captured step that is another'
run 1 FAKE_GRAPH_LOSS=1.250002
result losses-f32 failed
says 'captured steps are not those'

case_name='a loss that is no number'
run 1 FAKE_LOSS=nan
result losses-bf16 failed

case_name='too few steps'
run 1 FAKE_UPDATES=19
result losses-f32 failed

case_name='the sanitizer finds something'
run 1 FAKE_SANITIZER_CODE=99 FAKE_SANITIZER='Invalid __global__ read'
result memcheck-f32 failed

case_name='the sanitizer gets no test'
run 1 FAKE_FILTERED=0
result memcheck-operations failed

case_name='the sanitizer cannot use the device'
run 0 FAKE_SANITIZER_CODE=1 FAKE_SANITIZER='Error: Device not supported'
result racecheck-bf16 skipped

case_name='a step hangs'
run 1 FAKE_SLEEP=60 CHECK_SECONDS=8
result cuda_tests-1-of-4 'too long'
result losses-f32 ok
result torch-baby-gpt skipped
echo 'check: all cases passed'
