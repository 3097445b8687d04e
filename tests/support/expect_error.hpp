// expect_error(): a call must throw an exception of a type with a text.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace heed::test {

// run() must throw an E whose message contains `text`. Exceptions of other types pass through.
template <class E, class F>
void expect_error(F run, const std::string& text) {
  try {
    run();
    ADD_FAILURE() << "no error, expected: " << text;
  } catch (const E& error) {
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

}  // namespace heed::test
