"""Every command block of README.md and docs/ runs.

The `sh` and `python` blocks of a page run in order, as one reader would type them, in a folder that has a
Gemma (`gemma-2b`, really models/gemma-tiny), texts, and the program at its usual place, behind short_darkformer,
which cuts steps and lengths. Comments above a block say more:
  <!-- not run: WHY -->   it is left out
  <!-- fails: WORDS -->   it fails, with these words on standard error
  <!-- file: PATH -->     of a `cpp` block: its words are in this file, which the build compiles
"""
# SPDX-License-Identifier: Apache-2.0
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PROGRAM = Path(os.environ["DARKFORMER"])
OPS = Path(os.environ["DARKFORMER_OPS"])
PYTHON = os.environ["SYSTEM_PYTHON3"]
BLOCK = re.compile(r"(?:<!-- (?P<note>[^\n]*?) -->\n)?```(?P<kind>\w+)\n(?P<body>.*?)```", re.S)
RUN = ("sh", "python")
PROGRAM_PLACE = Path("build/release/bin/darkformer")


def pages():
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "models").rglob("*.md"))]


def blocks(page):
    """(line, kind, note, body) of each fenced block with a language."""
    text = page.read_text(encoding="utf-8")
    return [(text[:match.start("body")].count("\n"), match["kind"], match["note"] or "", match["body"])
            for match in BLOCK.finditer(text)]


def documents(count):
    """Some English that is in the tree anyway."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    size = len(text) // count
    return [text[i * size:(i + 1) * size] for i in range(count)]


def furnish(folder):
    """What the pages take for granted."""
    for model in ("gemma-2b", "gemma-2b-it"):
        (folder / model).symlink_to(ROOT / "models" / "gemma-tiny")
    (folder / "models").symlink_to(ROOT / "models")
    (folder / "build" / "release" / "bin").mkdir(parents=True)
    (folder / PROGRAM_PLACE).symlink_to(ROOT / "tests" / "docs" / "short_darkformer")
    (folder / "build" / "release" / "darkformer").mkdir()
    (folder / "build" / "release" / "darkformer" / "libdarkformer_ops.so").symlink_to(OPS)
    lines = [json.dumps({"text": text}) for text in documents(20)]
    (folder / "text.jsonl").write_text("\n".join(lines[:18]) + "\n")
    (folder / "held-out.jsonl").write_text("\n".join(lines[18:]) + "\n")
    (folder / "book.txt").write_text(documents(20)[0])
    # Enough different words for a vocabulary of the default size.
    sources = sorted((ROOT / "darkformer").rglob("*.cc"))[:120]
    (folder / "speeches.txt").write_text("\n".join(source.read_text(encoding="utf-8") for source in sources))
    with gzip.open(folder / "c4.json.gz", "wt") as shard:
        shard.write("\n".join(lines) + "\n")


def run(kind, body, folder):
    command = ["bash", "-euo", "pipefail", "-c", body] if kind == "sh" else [PYTHON, "-c", body]
    environment = dict(os.environ, HOME=str(folder), PATH=f"{(folder / PROGRAM_PLACE).parent}:{os.environ['PATH']}")
    done = subprocess.run(command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)
    return done.returncode, done.stdout[-800:] + done.stderr[-800:]


class Blocks(unittest.TestCase):
    def check(self, page):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            furnish(folder)
            for line, kind, note, body in blocks(page):
                where = f"{page.relative_to(ROOT)}:{line}"
                if note.startswith("not run: "):
                    continue
                if kind in RUN:
                    code, said = run(kind, body, folder)
                    expected = note.removeprefix("fails: ") if note.startswith("fails: ") else ""
                    self.assertEqual(code != 0, expected != "", f"{where}: exit {code}\n{body}\n{said}")
                    self.assertIn(expected, said, where)
                elif kind == "cpp":
                    self.assertTrue(note.startswith("file: "), f"{where}: C++ that nothing compiles")
                    self.assertIn(body, (ROOT / note.removeprefix("file: ")).read_text(), where)


def add_page(page):
    name = "test_" + re.sub(r"\W", "_", str(page.relative_to(ROOT)))
    setattr(Blocks, name, lambda self: self.check(page))


for each in pages():
    if any(kind in (*RUN, "cpp") for _, kind, _, _ in blocks(each)):
        add_page(each)

if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
