"""What a fault is."""

from collections import namedtuple

# `old` in `file` becomes `new`. tests: "target filter", a test executable and its gtest filter; ranks_tests is run on 2
# ranks, and for the target heed the filter is a regular expression of ctest.
Mutant = namedtuple("Mutant", "name file old new tests")
