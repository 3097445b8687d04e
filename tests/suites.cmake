# Read by ctest when it starts: registers each GoogleTest suite of `listed` as <prefix>.<suite><suffix>, to be run by
# `executable`, which may be another build of the same tests. Also set: labels, environment, processors, timeout and
# fixture (or empty), and except: a regular expression of suites to leave out (or empty).
# One entry per suite, since per test the starts of hundreds of processes would cost more than the tests themselves, and
# per executable -R could not pick an operation.
execute_process(COMMAND "${listed}" --gtest_list_tests OUTPUT_VARIABLE listing ERROR_QUIET RESULT_VARIABLE status)
if(NOT status STREQUAL 0)
  add_test("${prefix}.list${suffix}" "${listed}" --gtest_list_tests)  # fails, and shows why
  return()
endif()
string(REGEX MATCHALL "\n[^ \n]+\\." suites "\n${listing}")  # "Suite." or "Suite.  # TypeParam = ..."
foreach(suite IN LISTS suites)
  string(STRIP "${suite}" suite)
  if(except AND suite MATCHES "${except}")
    continue()
  endif()
  set(name "${prefix}.${suite}")
  string(REGEX REPLACE "\\.$" "${suffix}" name "${name}")
  add_test("${name}" "${executable}" "--gtest_filter=${suite}*")
  set_tests_properties("${name}" PROPERTIES PROCESSORS ${processors} TIMEOUT ${timeout} LABELS "${labels}"
    ENVIRONMENT "${environment}" FAIL_REGULAR_EXPRESSION "0 tests from 0 test suites")
  if(fixture)
    set_tests_properties("${name}" PROPERTIES FIXTURES_REQUIRED "${fixture}")
  endif()
endforeach()
