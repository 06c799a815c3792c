"""What make install and make deb give: a project outside the tree builds on it, Python finds it, nothing else is needed."""
# SPDX-License-Identifier: Apache-2.0
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
BUILD = Path(os.environ["DARKFORMER_BUILD"])
PYTHON = os.environ["SYSTEM_PYTHON3"]
NUMBERS = """
import torch, darkformer
q = torch.arange(4 * 20 * 8).float().sin().reshape(1, 4, 20, 8)
k = torch.arange(2 * 20 * 8).float().cos().reshape(1, 2, 20, 8)
draws = darkformer.draw_features(2, 16, 8, seed=1)
factor = torch.eye(8).repeat(2, 1, 1).requires_grad_()
out = darkformer.dark_attention(q, k, k, draws, factor, window=4)
out.square().sum().backward()
exact = darkformer.exact_attention(q, k, k).sum()
print("draws %.6f dark %.6f |dM| %.6f exact %.6f" % (draws.sum(), out.sum(), factor.grad.norm(), exact))
print(darkformer.library_path())
"""


def run(*command, folder=None, **environment):
    clean = {key: value for key, value in os.environ.items() if key not in ("DARKFORMER_OPS", "PYTHONPATH")}
    done = subprocess.run([str(word) for word in command], cwd=folder, env={**clean, **environment}, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)
    if done.returncode:
        raise AssertionError(f"{command}: {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def headers():
    return re.search(r"PUBLIC_HEADERS\s+([^)]*)\)", (ROOT / "cmake" / "PublicHeaders.cmake").read_text()).group(1).split()


class Prefix(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = Path(cls.scratch.name)
        cls.prefix = cls.folder / "prefix"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        cls.python = next(cls.prefix.glob("lib/python3*/dist-packages"))

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def test_program(self):
        self.assertIn("darkformer 0.1", run(self.prefix / "bin" / "darkformer", "--version"))
        self.assertIn("complete -F", (self.prefix / "share/bash-completion/completions/darkformer").read_text())
        manual = self.prefix / "share/man/man1/darkformer.1"
        self.assertIn(".SS finetune", manual.read_text())
        if shutil.which("groff"):
            done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", manual], capture_output=True, text=True, check=True)
            self.assertEqual(done.stderr, "")
            self.assertIn("darkformer convert MODEL --out DIR", re.sub(r"\x1b\[[\d;]*m|.\x08", "", done.stdout))

    def test_project_outside(self):
        """find_package(darkformer): every header compiles, and C++ and Python give the same numbers."""
        project = self.folder / "project"
        shutil.copytree(ROOT / "examples" / "project", project)
        (project / "headers.cc").write_text("".join(f"#include <darkformer/{header}>\n" for header in headers()))
        lists = (project / "CMakeLists.txt").read_text()
        (project / "CMakeLists.txt").write_text(lists.replace("main.cc)", "main.cc headers.cc)"))
        run("cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", project / "build")
        lines = run(project / "build" / "example").splitlines()
        numbers, library = run(PYTHON, "-c", NUMBERS, folder=self.folder, PYTHONPATH=str(self.python)).splitlines()
        self.assertEqual(lines[0], numbers)
        self.assertIn("at least one feature", lines[1])
        self.assertTrue(Path(library).is_relative_to(self.prefix), library)

    def test_python_examples(self):
        model = ROOT / "models" / "gemma-tiny"
        for name, arguments, words in (("op", [], "|dM|"), ("module", [], "step 30"), ("decode", [model], "dark: 127 tokens"),
                                       ("convert", [model, self.folder / "converted"], "after 10 steps")):
            with self.subTest(name=name):
                printed = run(PYTHON, self.prefix / f"share/doc/darkformer/examples/{name}.py", *arguments, folder=self.folder,
                              PYTHONPATH=str(self.python))
                self.assertIn(words, printed)
        printed = run(self.prefix / "bin" / "darkformer", "info", self.folder / "converted")
        self.assertIn("dark", printed)


@unittest.skipUnless(shutil.which("dpkg-shlibdeps"), "no Debian tools")
class DebianPackage(unittest.TestCase):
    def check_form(self, package):
        """What Debian asks of every package; lintian would complain."""
        self.assertRegex(run("dpkg-deb", "-f", package, "Maintainer"), r"^\S.* <[^@ <>]+@[\w-]+(\.[\w-]+)+>$")
        for field in ("Version", "Architecture", "Section", "Priority", "Installed-Size", "Description"):
            self.assertTrue(run("dpkg-deb", "-f", package, field).strip(), field)
        entries = [line.split() for line in run("dpkg-deb", "-c", package).splitlines()]
        for mode, owner, *_, name in entries:
            self.assertEqual(owner, "root/root", name)
            self.assertRegex(mode, "^(drwxr-xr-x|lrwxrwxrwx|-rw-r--r--|-rwxr-xr-x)$", name)
        self.assertIn("./usr/share/doc/darkformer/copyright", [entry[5] for entry in entries])

    def test_package(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            run("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", folder)
            package = next(folder.glob("darkformer_*.deb"))
            depends = run("dpkg-deb", "-f", package, "Depends")
            for needed in ("libtorch", "libdnnl", "libhwy", "libc6"):
                self.assertIn(needed, depends)
            self.assertIn("python3-torch", run("dpkg-deb", "-f", package, "Recommends"))
            self.check_form(package)
            run("dpkg-deb", "-x", package, folder / "root")
            packages = folder / "root/usr/lib/python3/dist-packages"
            _, library = run(PYTHON, "-c", NUMBERS, folder=folder, PYTHONPATH=str(packages)).splitlines()
            self.assertTrue(Path(library).is_relative_to(folder / "root"), library)
            self.assertIn("darkformer 0.1", run(folder / "root/usr/bin/darkformer", "--version"))


if __name__ == "__main__":
    unittest.main()
