"""What a fault is."""

from collections import namedtuple

# Replaces `old` in `file` by `new`. `tests` is "target filter", a test executable and its GoogleTest filter. ranks_tests
# runs on 2 ranks; for the target heed, the filter is a regular expression of ctest.
Mutant = namedtuple("Mutant", "name file old new tests")
