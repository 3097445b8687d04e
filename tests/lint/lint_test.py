"""Plants a violation for every rule and expects it to be reported, and expects its innocent neighbour not to be."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

import build_rules
import lint
from tree import SourceTree

ONCE = "#pragma once\n"
FAST = "-f" + "fast-math"
OFAST = "-O" + "fast"
MARK = "TO" + "DO"
HOME = "/" + "home/me/data"
TAPE = {"autograd/tape.hpp": ONCE, "autograd/tensor.hpp": ONCE}


def macro_lines(count):
    return "".join(f"#define M{i}(x) x\n" for i in range(count))


# rule function: (files with a violation, "file:line: rule" that must be reported, files without)
CASES = {
    "included_files_exist": (
        {
            "nn/a.cpp": '\n#include "../autograd/tape.hpp"\n',
            "tests/hostcuda/src/a.cpp": '#include "autograd/tape.hpp"\n',
            **TAPE,
        },
        ["nn/a.cpp:2: include-path", "tests/hostcuda/src/a.cpp:1: include-path"],
        {
            "nn/a.cpp": '#include "autograd/tape.hpp"\n#include <vector>\n// #include "gone.hpp"\n',
            "tests/hostcuda/src/a.cpp": '#include "src/b.hpp"\n',
            "tests/hostcuda/src/b.hpp": ONCE,
            **TAPE,
        },
    ),
    "folders": (
        {"optim/a.cpp": '#include "nn/b.hpp"\n', "nn/b.hpp": ONCE},
        "optim/a.cpp:1: layers",
        {"train/a.cpp": '#include "nn/b.hpp"\n', "nn/b.hpp": ONCE},
    ),
    "comment_words": (
        {"nn/a.cpp": "// The last row, behind the others.\n", "docs/a.md": "Text.\nNobody knows.\n"},
        ["nn/a.cpp:1: comment-words", "docs/a.md:2: comment-words"],
        {"nn/a.cpp": "// After the others.\nint behind;\n", "tests/nn/a_test.cpp": "// Behind.\n", "docs/a.md": "After.\n"},
    ),
    "comment_names": (
        {"nn/a.hpp": ONCE + "int f();\n// Adds.\n// rows: how many.\nvoid add(int count);\n"},
        "nn/a.hpp:4: comment-names",
        {"nn/a.hpp": ONCE + "int f();\n// Adds as\n// many: all.\n// count: how many.\nvoid add(int count);\n"},
    ),
    "rooms": (
        {"train/run/a.cpp": '#include "train/bench/b.hpp"\n', "train/bench/b.hpp": ONCE},
        "train/run/a.cpp:1: rooms",
        {"train/run/a.cpp": '#include "train/config/b.hpp"\n', "train/config/b.hpp": ONCE, "train/bench/c.hpp": ONCE},
    ),
    "inside_autograd": (
        {"autograd/core/a.hpp": ONCE + '#include "autograd/tensor.hpp"\n', **TAPE},
        "autograd/core/a.hpp:2: autograd-levels",
        {"autograd/ops/a_cpu.cpp": '#include "autograd/tensor.hpp"\n', **TAPE},
    ),
    "kernels_know_no_tape": (
        {
            "autograd/ops/a_cpu.cpp": '#include "autograd/ops/a.hpp"\n',
            "autograd/ops/a.hpp": ONCE + '#include "autograd/tape.hpp"\n',
            **TAPE,
        },
        "autograd/ops/a_cpu.cpp:1: kernel-tape",
        {"autograd/ops/a.cpp": '#include "autograd/tape.hpp"\n', **TAPE},
    ),
    "op_cases_know_no_tests": (
        {"autograd/ops/a_case.cpp": "#include <gtest/gtest.h>\n"},
        "autograd/ops/a_case.cpp:1: op-case-includes",
        {"autograd/ops/a_case.cpp": '#include "autograd/tensor.hpp"\n', **TAPE},
    ),
    "libraries": (
        {"data/batch.cpp": "#include <hdf5.h>\n"},
        "data/batch.cpp:1: library-place",
        {"data/io/hdf5_file.cpp": "#include <hdf5.h>\n", "autograd/ops/a.cu": "#include <cuda_runtime.h>\n"},
    ),
    "openmp": (
        {"autograd/ops/a_cpu.cpp": "void f() {\n#pragma omp parallel for\n}\n"},
        "autograd/ops/a_cpu.cpp:2: openmp",
        {"autograd/cpu/parallel.cpp": "#pragma omp parallel\n"},
    ),
    "nan_safe_simd": (
        {"autograd/ops/a_cpu.cpp": "auto y = hn::Exp(d, x);\n"},
        "autograd/ops/a_cpu.cpp:1: nan-safe-simd",
        {"autograd/ops/a_cpu.cpp": "auto y = Exp(d, hn::Add(x, x));  // hn::Exp(d, x)\n"},
    ),
    "top_level": (
        {"scripts/a.py": ""},
        "scripts:1: top-level",
        {"nn/a.py": "", ".ci/run": "", "README.md": ""},
    ),
    "file_length": (
        {"nn/a.cpp": "\n" * 501},
        "nn/a.cpp:501: file-length",
        {"nn/a.cpp": "\n" * 500},
    ),
    "pragma_once": (
        {"nn/a.hpp": "// #pragma once\n"},
        "nn/a.hpp:1: pragma-once",
        {"nn/a.hpp": "// why\n#pragma once\n"},
    ),
    "launches": (
        {"autograd/ops/a.cu": "\nkernel<<<1, 2>>>(x);\n"},
        "autograd/ops/a.cu:2: launch",
        {"autograd/cuda/launch.cuh": ONCE + "kernel<<<1, 2>>>(x);\n", "autograd/a.cpp": 'auto s = "<<<";\n'},
    ),
    "macros": (
        {"nn/a.cpp": macro_lines(3), "nn/b.cpp": macro_lines(2)},
        "nn/b.cpp:2: macros",
        {"nn/a.cpp": macro_lines(4), "tests/a.cpp": macro_lines(4) + "#define X 1\n"},
    ),
    "exits": (
        {"nn/a.cpp": "void f() {\n  std::abort();\n}\n"},
        "nn/a.cpp:2: exit",
        {"train/commands/main.cpp": "exit(2);\n", "nn/a.cpp": "run.abort(); on_exit(f);  // exit(1)\n"},
    ),
    "output": (
        {"train/a.cpp": "std::fflush(stdout);\nfmt::print(text);\nstd::cout << 1;\n"},
        [f"train/a.cpp:{line}: output" for line in (1, 2, 3)],
        {"train/output/output.cpp": "fflush(stdout);\n", "nn/a.cpp": "print(1); isatty(STDOUT_FILENO);  // to stdout\n"},
    ),
    "machine_paths": (
        {"configs/a.toml": f'path = "{HOME}"\n'},
        "configs/a.toml:1: machine-path",
        {"configs/a.toml": 'path = "data/home/me"\n'},
    ),
    "unfinished": (
        {"nn/a.cpp": f"\n// {MARK}: later\n"},
        "nn/a.cpp:2: unfinished",
        {"nn/a.cpp": f"int k{MARK}s;\n"},
    ),
    "every_op_has_a_case": (
        {
            "autograd/ops/a.hpp": ONCE + "Tensor add(int);\nTensor add_bias(int);\n",
            "autograd/ops/a_case.cpp": "OP_CASE(add_bias) {}\n",
        },
        "autograd/ops/a.hpp:2: op-case",
        {
            "autograd/ops/a.hpp": ONCE + "Tensor add(int);\nTensor add_and_backward(int);\nvoid f(TensorRef);\n",
            "autograd/ops/a_case.cpp": "OP_CASE(add_twice) {}\n",
        },
    ),
    "bounds_have_names": (
        {
            "tests/a.cpp": "EXPECT_NEAR(f(1, 2), 3,\n  1e-3);\nEXPECT_LE(e, 1e-6);\nif (e > 0.01f) {}\nkTolerance = 2;\n"
            "EXPECT_NEAR(a, b, kMine);\nEXPECT_NEAR(a, b, 2);\n"
        },
        [f"tests/a.cpp:{line}: tolerance" for line in (1, 3, 4, 5, 6, 7)],
        {
            "tests/a.cpp": "EXPECT_NEAR(1e-3, x, kF32 * 40 * v[0]);\nEXPECT_NEAR(a, b, bound);\nEXPECT_LE(n, 12);\nf(1e-5);\n",
            "tests/support/tolerance.hpp": ONCE + "kF32 = 1e-5;\n",
        },
    ),
    "flags_in_build_files": (
        {"CMakeLists.txt": f"\nadd_compile_options({FAST})\n", "tests/a.cmake": f"set(x {OFAST})\n"},
        ["CMakeLists.txt:2: build-flags", "tests/a.cmake:1: build-flags"],
        {
            "CMakeLists.txt": f"add_compile_options(-O3 -fno-math-errno)\nx({FAST})  # sanitizers only\n",
            "README.md": f"no {FAST}\n",
        },
    ),
    "flags_in_source": (
        {"nn/a.cpp": '__attribute__((optimize("' + FAST[2:] + '"))) void f();\n'},
        "nn/a.cpp:1: build-flags",
        {"nn/a.cpp": '__attribute__((optimize("O3"))) void f();\n'},
    ),
}


def reports(found):
    return [f"{v.path}:{v.line}: {v.rule}" for v in found]


class Rules(unittest.TestCase):
    def test_every_rule_has_a_case(self):
        self.assertEqual(sorted(rule.__name__ for rule in lint.RULES), sorted(CASES))

    def test_planted_violations_are_reported(self):
        for rule in lint.RULES:
            bad, expected, good = CASES[rule.__name__]
            with self.subTest(rule.__name__):
                found = reports(rule(SourceTree(bad)))
                for line in [expected] if isinstance(expected, str) else expected:
                    self.assertIn(line, found)
                self.assertEqual([], rule(SourceTree(good)))

    def test_files_that_git_does_not_track_may_lie_at_the_top_level(self):
        mine = {"mine.toml": "", "nn/a.py": ""}
        self.assertEqual([], lint.style.top_level(SourceTree(mine, tracked={"nn"})))
        self.assertEqual(1, len(lint.style.top_level(SourceTree(mine, tracked={"nn", "mine.toml"}))))

    def test_each_folder_knows_only_what_stands_below(self):
        header = {
            f"{folder}/x.hpp": ONCE for folder in ("autograd/core", "autograd", "nn", "optim", "data", "train", "tests")
        }
        allowed = {
            "autograd/ops": {"autograd/core", "autograd"},
            "nn": {"autograd/core", "autograd", "nn"},
            "optim": {"autograd/core", "autograd", "optim"},
            "data": {"autograd/core", "data"},
            "train": {"autograd/core", "autograd", "nn", "optim", "data", "train"},
            "tests/nn": {"autograd/core", "autograd", "nn", "optim", "data", "train", "tests"},
        }
        for folder, known in allowed.items():
            for name in header:
                files = {**header, f"{folder}/y.cpp": f'#include "{name}"\n'}
                refused = any(v.rule == "layers" for v in lint.check(SourceTree(files)))
                self.assertEqual(refused, os.path.dirname(name) not in known, f"{folder} includes {name}")

    def test_compile_commands(self):
        command = {"directory": "/", "file": "nn/a.cpp", "command": f"c++ {FAST} -march=" + "native -c nn/a.cpp"}
        self.assertEqual(2, len(build_rules.flags_in_commands([command])))
        tree = SourceTree({"nn/a.cpp": "", "nn/b.cpp": ""})
        self.assertEqual(["nn/b.cpp:1: not-built"], reports(build_rules.every_source_is_built(tree, [command], "/")))

    def test_sources_of_the_emulator_are_named_by_its_own_build(self):
        folder = "tests/hostcuda/"
        tree = SourceTree(
            {
                folder + "CMakeLists.txt": "add_library(a src/a.cpp\n  b_test.cu)\n",
                folder + "src/a.cpp": "",
                folder + "src/aa.cpp": "",
                folder + "b_test.cu": "",
                folder + "c_test.cu": "",
            }
        )
        found = reports(build_rules.every_source_is_built(tree, [], "/"))
        self.assertEqual([f"{folder}c_test.cu:1: not-built", f"{folder}src/aa.cpp:1: not-built"], found)


def run(program, *arguments):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), program)
    return subprocess.run([sys.executable, "-B", path, *arguments], capture_output=True, text=True, check=False)


class WholePrograms(unittest.TestCase):
    def test_format(self):
        with tempfile.TemporaryDirectory() as root:
            path = os.path.join(root, "a.cpp")
            for text, code in (("int a;\n", 0), ("int a;\nint  b;\n", 1)):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                result = run("format.py", root)
                if result.returncode == 77:
                    self.skipTest(result.stdout)
                self.assertEqual(code, result.returncode, result.stderr)
            self.assertIn("a.cpp:2: format: ", result.stdout)

    def test_lint(self):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "nn"))
            os.makedirs(os.path.join(root, "build"))
            for path in ("nn/a.cpp", "nn/build_b.cpp", "build/ignored.cpp"):
                with open(os.path.join(root, path), "w", encoding="utf-8") as file:
                    file.write(f"// {MARK}\n")
            commands = os.path.join(root, "build", "compile_commands.json")
            with open(commands, "w", encoding="utf-8") as file:
                json.dump([{"directory": root, "file": "nn/a.cpp", "command": f"c++ {OFAST}"}], file)
            result = run("lint.py", root, commands)
            self.assertEqual(1, result.returncode, result.stderr)
            self.assertIn("nn/a.cpp:1: unfinished: ", result.stdout)
            self.assertIn("nn/build_b.cpp:1: unfinished: ", result.stdout)
            self.assertNotIn("ignored", result.stdout)
            self.assertIn("nn/a.cpp:1: build-flags: ", result.stdout)
            self.assertIn("4 violations", result.stdout)


if __name__ == "__main__":
    unittest.main()
