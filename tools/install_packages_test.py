"""install_packages: what it calls and says, with stand-ins for apt, dpkg, id and sudo."""
import os
import unittest

from tool_testing import ToolTest


class InstallPackages(ToolTest):
    def setUp(self):
        super().setUp()
        self.calls = self.root / "calls"
        self.calls.write_text("")
        self.list = self.write("packages.txt", "# comment\nhave\n\nwant-a  # why\nwant-b\n")
        for tool in ("bash", "sed", "env", "cat"):
            os.symlink(f"/usr/bin/{tool}", self.stand_in(tool))
        self.put("dpkg-query", 'case "$4" in have) printf installed;; *) exit 1;; esac')
        self.put("apt-get", f'echo "apt-get $*" >> {self.calls}')
        self.put("id", "echo 0")

    def stand_in(self, name):
        (self.root / "bin").mkdir(exist_ok=True)
        return self.root / "bin" / name

    def put(self, name, body):
        file = self.stand_in(name)
        file.write_text(f"#!/bin/sh\n{body}\n")
        file.chmod(0o755)

    def install(self, **environment):
        return self.run_tool("install_packages", self.list, env={"PATH": str(self.root / "bin"), **environment})

    def test_root_updates_once_and_installs_what_is_missing(self):
        code, text = self.install()
        self.assertEqual(code, 0, text)
        self.assertEqual(self.calls.read_text().splitlines(),
                         ["apt-get update -q", "apt-get install -y --no-install-recommends want-a want-b"])

    def test_nothing_missing_calls_nothing(self):
        self.put("dpkg-query", "printf installed")
        self.assertEqual(self.install(), (0, ""))
        self.assertEqual(self.calls.read_text(), "")

    def test_user_with_sudo(self):
        self.put("id", "echo 1000")
        self.put("sudo", f'echo sudo >> {self.calls}; exec "$@"')
        self.assertEqual(self.install()[0], 0)
        self.assertEqual(self.calls.read_text().splitlines()[0::2], ["sudo", "sudo"])

    def test_user_without_sudo_gets_the_exact_line(self):
        self.put("id", "echo 1000")
        code, text = self.install()
        self.assertEqual(code, 1)
        self.assertIn("apt-get update && apt-get install -y --no-install-recommends want-a want-b\n", text)
        self.assertEqual(self.calls.read_text(), "")

    def test_without_apt_the_libraries_are_named(self):
        self.stand_in("apt-get").unlink()
        code, text = self.install()
        self.assertEqual(code, 1)
        for name in ("libtorch 1.13", "oneDNN 2.6", "Highway 1.0", "PACKAGES=skip"):
            self.assertIn(name, text)
        self.assertEqual(self.install(PACKAGES="skip"), (0, ""))

    def test_failing_apt_fails(self):
        self.put("apt-get", "exit 100")
        self.assertNotEqual(self.install()[0], 0)


if __name__ == "__main__":
    unittest.main()
