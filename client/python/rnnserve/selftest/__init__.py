# SPDX-License-Identifier: Apache-2.0
"""Holds the converters, the formulas and, with --address, a server against each framework's published equations.

    python -m rnnserve.selftest [--address HOST:PORT]
"""
