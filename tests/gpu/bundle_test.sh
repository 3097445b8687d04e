#!/usr/bin/env bash
# bundle_test.sh CMAKE BUILD [FOLDER OF cuBLASLt]: the bundle of a build folder, moved to another place and run with an
# empty environment.
set -euo pipefail

cmake=$1
build=$2
export_path=(PATH=/usr/bin:/bin)
[[ -z ${3:-} ]] || export_path+=(LD_LIBRARY_PATH="$3")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle="$work/another folder"
most_megabytes=32  # of the archive that is copied to the other machine

fail() { printf 'FAILED: %s\n' "$*"; exit 1; }
clean() { env -i "${export_path[@]}" "$@"; }

"$cmake" --install "$build" --component bundle --prefix "$work/made" --strip >"$work/install.log" ||
  fail "install: $(tail -n 3 "$work/install.log")"
mv "$work/made" "$bundle"
megabytes=$(($(tar -C "$bundle" -cz . | wc -c) >> 20))
((megabytes <= most_megabytes)) || fail "the archive has $megabytes MiB, at most $most_megabytes"

# From outside come the C and C++ libraries and what belongs to the card, nothing else.
outside='^lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|cublasLt|nccl)\.so'
for program in "$bundle"/bin/*; do
  clean LD_TRACE_LOADED_OBJECTS=1 "$program" >"$work/libraries"
  ! grep 'not found' "$work/libraries" || fail "$program lacks a library"
  while IFS='|' read -r name path; do
    [[ $path == "$bundle"/bin/../lib/* || $name =~ $outside ]] || fail "$(basename "$program") takes $name from $path"
  done < <(sed -nE 's/^\s*(\S+) => (.*) \(0x[0-9a-f]+\)$/\1|\2/p' "$work/libraries")
done

cd "$work"
clean "$bundle/bin/heed" info >info.txt || fail "heed info: $(cat info.txt)"
clean "$bundle/bin/heed" train "$bundle/configs/ngram.toml" train.device=cpu \
  train.steps=3 optim.warmup_steps=0 train.run_dir=run >train.txt 2>&1 ||
  fail "heed train: $(cat train.txt)"
[[ -s run/checkpoints/last.h5 ]] || fail 'no checkpoint'
clean "$bundle/bin/heed" generate run/checkpoints/last.h5 --tokens 5 >/dev/null || fail 'heed generate'
for file in tests/bench/compare_torch.py tests/bench/gpt2_124m.toml tests/reference/torch_gpt.py python/heed/gpt.py \
  python/heed/resolved_config.py python/heed/errors.py tests/gpu/check.sh tests/gpu/steps.sh; do
  [[ -s $bundle/$file ]] || fail "no $file"
done
if ! grep -q '^device .*(sm_' info.txt; then
  code=0
  clean "$bundle/tests/gpu/check.sh" >check.txt 2>&1 || code=$?
  [[ $code == 77 && $(tail -n 1 check.txt) == 'check: nothing to check on: '* ]] || fail "check.sh ended with $code: $(cat check.txt)"
fi
echo "bundle: $megabytes MiB, starts elsewhere, trains, and knows what device there is: $(grep -E '^(CUDA|device)' info.txt | tail -n 1)"
