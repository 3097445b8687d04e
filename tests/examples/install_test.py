"""install_test.py CMAKE SOURCE BUILD: heed as the library of another project, installed and as a subfolder.

The project that contains heed is configured, not compiled: that would take minutes.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SUBPROJECT = """cmake_minimum_required(VERSION 3.22)
project(consumer LANGUAGES C CXX)
add_subdirectory({source} heed)
add_executable(consumer {source}/examples/own_operation.cpp)
target_link_libraries(consumer PRIVATE heed::autograd)
"""


class Install(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_command(self, *words):
        done = subprocess.run(
            [str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def install(self):
        """Into a folder that is moved afterwards: no path of the build may be in the files."""
        self.run_command(CMAKE, "--install", BUILD, "--prefix", self.folder / "first")
        return (self.folder / "first").rename(self.folder / "heed installed")

    def test_examples_build_on_an_installed_heed(self):
        prefix, build = self.install(), self.folder / "build"
        self.run_command(
            CMAKE, "-G", "Ninja", "-S", SOURCE / "examples", "-B", build,
            f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Debug",
        )  # fmt: skip
        self.run_command(CMAKE, "--build", build, "--target", "example_own_operation")
        self.assertIn("6 gradients checked: right", self.run_command(build / "own_operation"))
        self.check_program(prefix)
        self.check_headers(prefix / "include" / "heed")

    def check_program(self, prefix):
        version = re.search(r"project\(heed VERSION (\S+)", (SOURCE / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
        self.assertEqual(self.run_command(prefix / "bin" / "heed", "--version").strip(), f"heed {version}")
        self.assertTrue((prefix / "share" / "heed" / "configs" / "ngram.toml").is_file())
        targets = "".join(path.read_text(encoding="utf-8") for path in prefix.glob("lib*/**/cmake/heed/*.cmake"))
        self.assertIn("heed::optim", targets)
        for folder in (SOURCE, BUILD, self.folder):
            self.assertNotIn(str(folder), targets)

    def check_headers(self, include):
        headers = sorted(include.rglob("*.hpp"))
        self.assertGreater(len(headers), 40)
        for header in headers:
            for name in re.findall(r'^#include "([^"]+)"', header.read_text(encoding="utf-8"), re.M):
                self.assertTrue((include / name).is_file(), f"{header.name} includes {name}, which is not installed")

    def test_a_project_that_contains_heed_keeps_its_own_settings(self):
        build = self.folder / "build"
        (self.folder / "CMakeLists.txt").write_text(SUBPROJECT.format(source=SOURCE), encoding="utf-8")
        self.run_command(
            CMAKE, "-G", "Ninja", "-S", self.folder, "-B", build, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", "-DHEED_CUDA=OFF"
        )
        cache = (build / "CMakeCache.txt").read_text(encoding="utf-8")
        self.assertRegex(cache, r"(?m)^CMAKE_BUILD_TYPE:STRING=$")
        self.assertRegex(cache, r"(?m)^HEED_PROGRAM:BOOL=OFF$")
        self.assertRegex(cache, r"(?m)^HEED_TESTS:STRING=OFF$")
        commands = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
        (own,) = [entry["command"] for entry in commands if entry["file"].endswith("own_operation.cpp")]
        self.assertNotIn(" -W", own)


if __name__ == "__main__":
    CMAKE, SOURCE, BUILD = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    unittest.main(argv=sys.argv[:1])
