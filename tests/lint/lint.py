"""lint.py ROOT [compile_commands.json]: the rules that no compiler checks. Prints file:line: rule: text."""

import sys

import build_rules
import layers
import style
import test_rules
from tree import SourceTree

RULES = layers.RULES + style.RULES + test_rules.RULES + build_rules.RULES


def check(tree):
    return [violation for rule in RULES for violation in rule(tree)]


def main(root, compile_commands=None):
    tree = SourceTree.read(root)
    found = check(tree)
    if compile_commands:
        found += build_rules.check_commands(tree, compile_commands, root)
    for violation in found:
        print(f"{violation.path}:{violation.line}: {violation.rule}: {violation.text}")
    print(f"lint: {len(tree.files)} files, {len(RULES)} rules, {len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
