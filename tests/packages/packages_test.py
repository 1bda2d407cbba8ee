# SPDX-License-Identifier: Apache-2.0
"""What another project gets of this one: installed (find_package) or added (add_subdirectory).

    python3 packages_test.py SOURCE BUILD CMAKE    BUILD: a built tree, whose programs and client are installed
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

if len(sys.argv) < 4:
    sys.exit(__doc__)
SOURCE, BUILD, CMAKE = sys.argv[1:4]
del sys.argv[1:4]
HERE = pathlib.Path(__file__).resolve().parent


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


class Packages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def configure(self, *settings):
        run(CMAKE, "-G", "Ninja", "-S", HERE, "-B", self.folder / "build", *settings)
        return run("ninja", "-C", self.folder / "build", "-t", "commands", "all").splitlines()

    def test_installed(self):
        prefix = self.folder / "prefix"
        for component in ("programs", "client"):
            run(CMAKE, "--install", BUILD, "--component", component, "--prefix", prefix)
        self.assertRegex(run(prefix / "bin/rnnctl", "--version"), r"\d+\.\d+\.\d+")
        unit = prefix / "lib/systemd/system/rnnserve.service"
        text = unit.read_text().replace("/usr/bin/rnnserve", str(prefix / "bin/rnnserve"))
        self.assertIn(f"ExecStart={prefix}/bin/rnnserve ", text)
        unit.write_text(text)
        if shutil.which("systemd-analyze"):
            self.assertEqual(run("systemd-analyze", "verify", unit), "")
        self.configure(f"-DCMAKE_PREFIX_PATH={prefix}")
        run(CMAKE, "--build", self.folder / "build")
        port = self.folder / "port"
        with subprocess.Popen([prefix / "bin/rnnserve", "--listen=127.0.0.1:0", f"--port_file={port}", "--admin_listen="],
                              stderr=subprocess.PIPE, text=True) as server:
            try:
                while not (port.exists() and port.read_text()) and server.poll() is None:
                    time.sleep(0.02)
                self.assertIsNone(server.poll())
                self.assertEqual(run(self.folder / "build/user", f"127.0.0.1:{port.read_text().strip()}"), "OK INVALID_ARGUMENT inputs[W]\n")
            finally:
                server.terminate()
                server.stderr.read()

    def test_added(self):
        """The C++ client, and neither server nor tests nor this project's ideas of warnings."""
        compiled = [line for line in self.configure(f"-DRNNSERVE_SOURCE={SOURCE}") if " -c " in line]
        self.assertTrue(any("client/cpp/client.cc" in line for line in compiled))
        self.assertLess(len(compiled), 50)
        for line in compiled:
            self.assertNotIn("-Werror", line)
            self.assertNotRegex(line, rf"{SOURCE}/(server|onnx_file|client/rnnctl|tests/(?!packages))")


if __name__ == "__main__":
    unittest.main()
