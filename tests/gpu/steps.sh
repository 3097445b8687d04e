# shellcheck shell=bash
# steps.sh: runs the steps of check.sh in waves (steps that run at the same time), each step with a time limit, and keeps
# the results in $out up to date. summary.txt lists every planned step and is rewritten whenever one begins or ends,
# log.txt has the output of all steps, benchmarks.txt that of the benchmarks. check.sh sources this file and sets $out,
# $deadline and $step_seconds.
#
# The results of a step:
#   ok         exit code 0
#   failed     another exit code, or a crash
#   too long   the step did not end within its own limit
#   cut off    the deadline of the check or the end of the wave came first, or the check was ended; not a failure
#   skipped    exit code 77, or a shared library is missing: the step cannot run on this machine
#   look       exit code 75: a finding that may be in a library, not in heed

kept_bytes=100000  # log.txt keeps so much of the beginning and of the end of each output

work=$(mktemp -d)
log=$out/log.txt
benchmarks=$out/benchmarks.txt
names=()          # names of the planned steps, in order
benches=' '       # names of the benchmarks
planned=0         # seconds: the sum of the limits of the waves that have not begun
planned_total=20  # seconds: the same for all waves, and the preparation in check.sh
is_planning=1

# ---- Waves -----------------------------------------------------------------------------------------------------------
# check.sh calls checks() twice: the first time these functions only add up the limits, then they run the steps.

# wave LIMIT JOBS [MOST]: begins a wave. Its steps, up to the call of finish, run JOBS at a time and end after LIMIT
# seconds, or after up to MOST seconds if earlier waves have left time.
wave() {
  local limit=$1 spare
  jobs=$2
  if ((is_planning)); then
    ((planned += limit, planned_total += limit))
    return
  fi
  ((planned -= limit, spare = deadline - SECONDS - planned))
  ((spare > ${3:-limit})) && spare=${3:-$limit}
  wave_end=$((SECONDS + (spare > limit ? spare : limit)))
  ((wave_end <= deadline)) || wave_end=$deadline
}

# step NAME LIMIT COMMAND...: starts a step of the wave in the background. NAME must not have a '/'.
step() {
  if ((is_planning)); then
    names+=("$1")
    return
  fi
  while are_running "$jobs" && ((SECONDS < wave_end)); do sleep 0.05; done
  : >"$work/$1.begun"
  run_step "$@" &
}

# bench NAME LIMIT COMMAND...: a step whose output goes to benchmarks.txt, too.
bench() {
  ((!is_planning)) || benches+="$1 "
  step "$@"
}

# Waits for the wave, but not for a process that even SIGKILL does not end.
finish() {
  ((!is_planning)) || return 0
  while are_running 1 && ((SECONDS < wave_end + 10)); do sleep 0.05; done
  local name
  for name in "${names[@]}"; do
    [[ ! -e $work/$name.begun || -e $work/$name.result ]] || tell "$name" 'too long' "$SECONDS" 'cannot be ended'
  done
  locked write_summary  # after the last step has told its result
}

# alone NAME LIMIT COMMAND..., alone_bench NAME LIMIT COMMAND...: a wave of one step.
alone() {
  wave "$2" 1
  step "$@"
  finish
}
alone_bench() {
  wave "$2" 1
  bench "$@"
  finish
}

# limit_of SECONDS: the limit of a step, which check_test.sh may lower.
limit_of() { echo $((step_seconds > 0 && step_seconds < $1 ? step_seconds : $1)); }

# are_running COUNT: whether COUNT steps or more are running.
are_running() {
  local name running=0
  for name in "${names[@]}"; do
    [[ ! -e $work/$name.begun || -e $work/$name.result ]] || ((++running))
  done
  ((running >= $1))
}

# ---- A step ----------------------------------------------------------------------------------------------------------
run_step() {
  local name=$1 limit begin=$SECONDS left=$((wave_end - SECONDS)) code=0 given
  limit=$(limit_of "$2")
  shift 2
  # Of several in the background none may end with the traps of check.sh.
  trap - EXIT TERM INT HUP
  given=$((limit < left ? limit : left))
  : >"$work/$name.log"
  if ((left < 1)); then
    tell "$name" 'cut off' 0 'no time left'
    return
  fi
  locked write_summary
  timeout -k 3 "$given" bash -uo pipefail -c '"$@"' bash "$@" >"$work/$name.log" 2>&1 </dev/null &
  echo $! >"$work/$name.pid"
  wait $! || code=$?
  end_group "$name"
  local seconds=$((SECONDS - begin)) library
  library=$(grep -aoE 'error while loading shared libraries: [^:]+' "$work/$name.log" | head -n 1)
  if ((code == 0)); then
    judge_tests "$name" "$seconds"
  elif [[ -e $work/is_ended ]]; then
    tell "$name" 'cut off' "$seconds" 'the check was ended'
  elif ((code == 77)); then
    tell "$name" skipped "$seconds" "$(last_line "$name")"
  elif ((code == 75)); then
    tell "$name" look "$seconds" "$(last_line "$name")"
  elif ((code == 124 || code == 137)) && ((seconds >= given)); then
    tell "$name" "$( ((given < limit)) && echo 'cut off' || echo 'too long')" "$seconds" "$(unfinished "$name" in)"
  elif [[ -n $library ]]; then
    tell "$name" skipped "$seconds" "${library##* } is missing"
  else
    tell "$name" failed "$seconds" "$(fault "$name" "$code")"
  fi
}

# end_group NAME: kills what a step has left running, such as a heed that catches SIGTERM and continues while `timeout`
# and the shell have ended. `timeout` leads the process group. NAME.pid exists as long as the group may have processes.
end_group() {
  kill -KILL -- "-$(<"$work/$1.pid")" 2>/dev/null
  rm -f "$work/$1.pid"
}

last_line() { grep -avE '^( *$|clocks after it)' "$work/$1.log" | tail -n 1; }

# unfinished NAME WORD: prints "WORD Suite.Test" for the GoogleTest test that has not ended, otherwise the last line.
unfinished() {
  local test
  test=$(awk '/^\[ RUN      \]/ { test = $4 } /^\[ +(OK|FAILED|SKIPPED) +\]/ { test = "" } END { print test }' \
    "$work/$1.log")
  if [[ -n $test ]]; then echo "$2 $test"; else last_line "$1"; fi
}

# Why a step failed: the test that crashed, the first one that failed, or the last line.
fault() {
  local failed
  failed=$(grep -aE '^\[  FAILED  \] [^ ]+[.]' "$work/$1.log" | awk '!seen[$4]++ { print $4 }' | tr -d ,)
  if (($2 >= 128)); then
    echo "signal $(($2 - 128)) $(unfinished "$1" in)"
  elif [[ -n $failed ]]; then
    echo "$(wc -l <<<"$failed") tests failed, the first was ${failed%%$'\n'*}"
  else
    last_line "$1"
  fi
}

# judge_tests NAME SECONDS: the result of a step with exit code 0. A GoogleTest program must also have run a test.
judge_tests() {
  local passed skipped
  if ! grep -aq '^\[==========\]' "$work/$1.log"; then
    tell "$1" ok "$2" "$(grep -aE -m 1 '^step  .* ms' "$work/$1.log" || last_line "$1")"
    return
  fi
  passed=$(grep -acE '^\[ +OK \]' "$work/$1.log")
  skipped=$(grep -acE '^\[  SKIPPED \] .*ms\)' "$work/$1.log")
  if ((passed + skipped == 0)); then
    tell "$1" failed "$2" 'the filter leaves no test'
  else
    tell "$1" "$( ((passed > 0)) && echo ok || echo skipped)" "$2" "$passed tests passed, $skipped skipped"
  fi
}

# ---- The files -------------------------------------------------------------------------------------------------------
locked() {
  (
    flock 9
    "$@"
  ) 9>"$work/lock"
}

# tell NAME RESULT SECONDS DETAIL: records the result of a step.
tell() { locked tell_locked "$@"; }
tell_locked() {
  [[ ! -e $work/$1.result ]] || return 0
  [[ -e $work/$1.log ]] || : >"$work/$1.log"
  printf '%s\t%s\t%s\n' "$2" "$3" "$(tr '\t' ' ' <<<"$4" | cut -c 1-110)" >"$work/$1.result"
  { printf '\n==== %s: %s after %s s\n' "$1" "$2" "$3"; excerpt "$work/$1.log"; } >>"$log"
  if [[ $benches == *" $1 "* ]]; then
    { printf '\n==== %s\n' "$1"; excerpt "$work/$1.log"; } >>"$benchmarks"
    highlights "$work/$1.log" | sed "s/^/$1  /" >"$work/$1.highlights"
  fi
  write_summary
  print_step "$1"  # last: it ends this process if stdout is a closed pipe
}

excerpt() {
  local bytes
  bytes=$(wc -c <"$1")
  if ((bytes <= 2 * kept_bytes)); then
    cat "$1"
  else
    head -c $kept_bytes "$1"
    printf '\n... %s bytes are left out ...\n' $((bytes - 2 * kept_bytes))
    tail -c $kept_bytes "$1"
  fi
}

# Sets result, seconds and detail.
read_result() {
  result='to come' seconds='' detail=''
  if [[ -e $work/$1.result ]]; then
    IFS=$'\t' read -r result seconds detail <"$work/$1.result"
  elif [[ -e $work/$1.begun ]]; then
    result=running
  fi
}
result_of() {
  local result seconds detail
  read_result "$1"
  echo "$result"
}
detail_of() { cut -f 3 "$work/$1.result"; }

print_step() {
  local result seconds detail
  read_result "$1"
  printf '%-32s %-8s %7s  %s\n' "$1" "$result" "$seconds" "$detail"
}

# Starts no process for each line, because it runs after each step.
write_summary() {
  local name result seconds detail done_steps=0
  local -A with=([failed]='' ['cut off']='' [skipped]='' [look]='')
  {
    printf '%-32s %-8s %7s  %s\n' step result seconds ''
    for name in "${names[@]}"; do
      read_result "$name"
      printf '%-32s %-8s %7s  %s\n' "$name" "$result" "$seconds" "$detail"
      [[ $result == running || $result == 'to come' ]] || ((++done_steps))
      with[${result/too long/failed}]+=" $name"
    done
    for name in $benches; do
      [[ ! -e $work/$name.highlights ]] || printf '%s\n' "$(<"$work/$name.highlights")"
    done
    printf '\n%s of %s steps are done after %s s; the limits add up to %s s of %s s%s\n' $done_steps ${#names[@]} \
      "$SECONDS" $planned_total "$deadline" "$([[ ! -e $work/is_ended ]] || echo '; THE CHECK WAS ENDED')"
    for result in 'cut off' skipped look; do
      [[ -z ${with[$result]} ]] || printf '%s:%s\n' "$result" "${with[$result]}"
    done
    if [[ -n ${with[failed]} ]]; then
      printf 'A STEP FAILED:%s\n' "${with[failed]}"
    elif ((done_steps == ${#names[@]})); then
      echo 'no step failed'
    fi
  } >"$out/.summary.new"
  mv "$out/.summary.new" "$out/summary.txt"
}

# The part of a benchmark that the summary shows: the lines about the whole step, and the step by operation.
highlights() {
  grep -aE '^(step|eager|MFU|heed is|clocks|ceilings) ' "$1"
  sed -n '/^one step by operation/,/^[^ o]/p' "$1" | grep -aE '^(one| )' | head -n 31
}

# ---- The end ---------------------------------------------------------------------------------------------------------
# skip_rest REASON: skips all steps that have not begun.
skip_rest() {
  local name
  for name in "${names[@]}"; do [[ -e $work/$name.begun ]] || tell "$name" skipped 0 "$1"; done
}

# On SIGTERM, SIGINT and SIGHUP: ends the running steps and records that the check was ended.
end_check() {
  trap '' TERM INT HUP
  : >"$work/is_ended"
  local name pids=()
  mapfile -t pids < <(cat "$work"/*.pid 2>/dev/null)
  wave_end=$((SECONDS + 6))
  ((${#pids[@]} == 0)) || kill "${pids[@]}" 2>/dev/null
  while ((${#pids[@]} > 0 && SECONDS < wave_end)) && kill -0 "${pids[@]}" 2>/dev/null; do sleep 0.05; done
  for name in "${names[@]}"; do tell "$name" 'cut off' 0 'the check was ended'; done
  exit 1
}
trap end_check TERM INT HUP

# No process may use the folder while it is removed.
clean_up() {
  local pid_file steps
  mapfile -t steps < <(jobs -p)
  ((${#steps[@]} == 0)) || kill -KILL "${steps[@]}" 2>/dev/null
  for pid_file in "$work"/*.pid; do
    [[ ! -e $pid_file ]] || end_group "$(basename "$pid_file" .pid)"
  done
  rm -rf "$work"
}
trap clean_up EXIT
