#!/bin/sh
# build.sh CMAKE SOURCE BUILD: the fuzz targets, by the preset fuzz. Exit code 77, by which ctest knows a skipped test,
# where there is no clang++ with libFuzzer.
set -eu

mkdir -p "$3"
echo 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }' >"$3/probe.cpp"
if ! clang++ -fsanitize=fuzzer,address "$3/probe.cpp" -o "$3/probe"; then
  echo 'SKIP: no clang++ with libFuzzer here (Debian, Ubuntu: clang and libclang-rt-dev)'
  exit 77
fi
"$1" --preset fuzz -S "$2" -B "$3"
"$1" --build "$3" --target fuzz
