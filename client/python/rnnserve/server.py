# SPDX-License-Identifier: Apache-2.0
"""python -m rnnserve.server [FLAG ...]: the server itself, of a wheel that carries it (deploy/packages/wheel.sh).

The process becomes the server: signals, exit status and `--help` are the server's own."""

import os
import pathlib
import sys

PROGRAM = pathlib.Path(__file__).resolve().parent / "bin" / "rnnserve"


def main() -> None:
    if not PROGRAM.exists():
        sys.exit("rnnserve: this package was installed without the server; install the wheel that carries it "
                 "(deploy/packages/wheel.sh builds it), the .deb, or the container image")
    os.execv(PROGRAM, [str(PROGRAM), *sys.argv[1:]])


if __name__ == "__main__":
    main()
