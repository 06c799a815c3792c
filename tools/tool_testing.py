"""What the tests of the tools share: a scratch tree and a way to run a tool on it."""
import pathlib
import subprocess
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent


class ToolTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, name, text):
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def run_tool(self, name, *arguments, **options):
        """(exit code, what it printed)"""
        done = subprocess.run([TOOLS / name, *arguments], capture_output=True, text=True, check=False, **options)
        return done.returncode, done.stdout + done.stderr
