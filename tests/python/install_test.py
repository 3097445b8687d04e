"""`pip install ./python` into a new virtual environment makes the package, with the version of CMakeLists.txt.

Usage: install_test.py PATH_OF_HEED. Skipped (77) without h5py, pip or hatchling, which it would have to download.
"""

import importlib.util
import re
import subprocess
import sys
import unittest

import package

for name in ("pip", "hatchling"):
    if importlib.util.find_spec(name) is None:
        print(f"install_test: skipped, Python has no {name}")
        sys.exit(77)


class Install(package.Package):
    def test_install(self):
        version = re.search(r"project\(heed VERSION ([\d.]+)", (package.ROOT / "CMakeLists.txt").read_text())[1]
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-index", "--no-deps"]
        target = self.folder / "site"
        subprocess.run([*pip, "--no-build-isolation", "--target", target, package.ROOT / "python"], check=True)
        code = "import heed, importlib.metadata as m; print(heed.__file__, m.version('heed'))"
        result = subprocess.run([sys.executable, "-B", "-c", code], env={"PYTHONPATH": str(target)}, cwd=self.folder,
                                capture_output=True, text=True, check=True)  # fmt: skip
        self.assertEqual(result.stdout.split(), [str(target / "heed/__init__.py"), version])
        self.assertTrue((target / "heed/py.typed").exists())


if __name__ == "__main__":
    unittest.main()
