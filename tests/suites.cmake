# Read by ctest when it starts: registers each GoogleTest suite of `executable` as <folder>.<suite>, and once more to be
# run in `sanitized`, the same tests built with sanitizers, where that is set.
# One entry per suite, since per test the starts of hundreds of processes would cost more than the tests themselves, and
# per executable -R could not pick an operation.
set(settings PROCESSORS 2 FAIL_REGULAR_EXPRESSION "0 tests from 0 test suites")
set(environment OMP_NUM_THREADS=2 OMP_WAIT_POLICY=passive UBSAN_OPTIONS=print_stacktrace=1)

execute_process(COMMAND "${executable}" --gtest_list_tests OUTPUT_VARIABLE listing ERROR_QUIET RESULT_VARIABLE status)
if(NOT status STREQUAL 0)
  add_test("${folder}.list" "${executable}" --gtest_list_tests)  # fails, and shows why
  return()
endif()
string(REGEX MATCHALL "\n[^ \n]+\\." suites "\n${listing}")  # "Suite." or "Suite.  # TypeParam = ..."
foreach(suite IN LISTS suites)
  string(STRIP "${suite}" suite)
  set(name "${folder}.${suite}")
  string(REGEX REPLACE "\\.$" "" name "${name}")
  add_test("${name}" "${executable}" "--gtest_filter=${suite}*")
  set_tests_properties("${name}" PROPERTIES ${settings} TIMEOUT 300 LABELS "${folder}" ENVIRONMENT "${environment}")
  if(sanitized)
    set(name "${name}.asan-ubsan")
    add_test("${name}" "${sanitized}" "--gtest_filter=${suite}*")
    set_tests_properties("${name}" PROPERTIES ${settings} TIMEOUT 600 LABELS "${folder};sanitizer"
      ENVIRONMENT "${environment}" FIXTURES_REQUIRED asan-ubsan)
  endif()
endforeach()
