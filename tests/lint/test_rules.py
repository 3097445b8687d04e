"""Rules about the tests: every operation has a case, and every bound has a name."""

import re

from tree import Violation, calls, line_of

TOLERANCES = "tests/support/tolerance.hpp"
NUMBER = r"(?<![\w.])(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fF]?(?![\w.])"
SMALL = r"(?<![\w.])(?:(?:\d+\.?\d*|\.\d+)[eE]-\d+|0?\.0\d+)[fF]?(?!\w)"


def operations(tree):
    """(path, line, name) of each function that autograd/ops declares and that returns a Tensor.

    Without name_and_backward(), which is name() and its backward in one: a test compares the two.
    """
    found = []
    for path in sorted(tree.files):
        if path.startswith("autograd/ops/") and path.endswith(".hpp"):
            code = tree.code(path)
            for match in re.finditer(r"^(?! )[\w:<>, ]*\bTensor(?:\b[\w:<>, ]*[ >])?\s*\b(\w+)\(", code, re.M):
                if not match.group(1).endswith("_and_backward"):
                    found.append((path, line_of(code, match.start()), match.group(1)))
    return found


def every_op_has_a_case(tree):
    """OP_CASE(name) or OP_CASE(name_variant); a case counts for the longest name that it starts with."""
    names = {name for _, _, name in operations(tree)}
    covered = set()
    for path in tree.cpp():
        if path.endswith("_case.cpp"):
            for case in re.findall(r"\bOP_CASE\(\s*(\w+)", tree.code(path)):
                matching = [name for name in names if case == name or case.startswith(name + "_")]
                covered.update([max(matching, key=len)] if matching else [])
    return [
        Violation(path, line, "op-case", f"{name} has no OP_CASE({name}) in autograd/ops/")
        for path, line, name in operations(tree)
        if name not in covered
    ]


def bounds_have_names(tree):
    """A number that says how far off a result may be stands in tolerance.hpp, with its reason.

    A bound may scale such a constant (4220 * kF64) or be computed; a constant of another file is as bad as a number.
    """
    found = []
    named = re.compile(
        r"\b(?:%s)\b" % "|".join(re.findall(r"\b(k[A-Z]\w*)\s*=", tree.files.get(TOLERANCES, "")) or ["(?!)"])
    )

    def report(path, line, bound):
        found.append(Violation(path, line, "tolerance", f"the bound {bound}: name it in {TOLERANCES}"))

    for path in tree.cpp():
        if not path.startswith("tests/") or path == TOLERANCES or path.startswith(("tests/hostcuda/", "tests/bench/")):
            continue
        code = tree.code(path)
        for line, arguments in calls(code, r"(?:EXPECT|ASSERT)_NEAR"):
            bound = re.sub(r"\[[^]]*\]", "", arguments[-1])
            number = not re.search(r"[A-Za-z_]\w+", bound)
            own_constant = re.search(r"\bk[A-Z]", bound) and not named.search(bound)
            if number or own_constant or re.search(SMALL, bound):
                report(path, line, arguments[-1])
        for line, arguments in calls(code, r"(?:EXPECT|ASSERT)_(?:LT|LE|GT|GE)"):
            for argument in arguments:
                if re.search(SMALL, argument) and not any(map(named.search, arguments)):
                    report(path, line, argument)
        for match in re.finditer(r"(?<![<>-])[<>]=?\s*(%s)" % SMALL, code):
            report(path, line_of(code, match.start()), match.group(1))
        for match in re.finditer(r"(?i)\b\w*(?:tolerance|tol)\s*[={]\s*(%s)" % NUMBER, code):
            report(path, line_of(code, match.start()), match.group(1))
    return found


RULES = [every_op_has_a_case, bounds_have_names]
