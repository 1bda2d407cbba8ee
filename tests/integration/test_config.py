# SPDX-License-Identifier: Apache-2.0
"""The config file: what it may hold, who goes before whom, where mistakes are, what `config print` says, and what a
running server tells when the file changes."""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest

import wire
from server_process import BINARY, Server, run_to_end
from test_service import _case

SCHEMA = (wire.REPOSITORY / "server/config/config.proto").read_text()
ONLY_FLAGS = {"config", "probe"}  # they say where the file is, and belong to healthcheck


def _file(tmp_path, text):
    path = tmp_path / "rnnserve.textproto"
    path.write_text(text)
    return path


def _print(*flags):
    done = run_to_end("config", "print", *flags)
    assert done.returncode == 0, done.stderr
    return {line.split(":")[0]: (line.split("  # ")[0], line.split("  # ")[1])
            for line in done.stdout.splitlines() if not line.startswith("#")}


def test_every_flag_is_in_the_schema_and_the_other_way_round():
    flags = set(re.findall(r"^  --(\w+)(?:=.*)?\n", run_to_end("--help").stdout, re.MULTILINE))
    fields = set(re.findall(r"^  (?:optional|repeated) \w+ (\w+) = \d+;", SCHEMA, re.MULTILINE))
    assert flags - ONLY_FLAGS == fields


def test_every_flag_is_documented_as_help_tells_it():
    helped = re.findall(r"^  --(\w+)(?:=(.*))?\n      (.*)$", run_to_end("--help").stdout, re.MULTILINE)
    table = (wire.REPOSITORY / "docs/operations.md").read_text().split("## Flags")[1]
    assert sorted(re.findall(r"^\| `--(\w+)` \| (?:`(.*?)`)? ?\| (.*) \|$", table, re.MULTILINE)) == sorted(helped)


def test_origins(tmp_path):
    path = _file(tmp_path, '# ours\nmax_calls: 7\nlisten: "127.0.0.1:0"\nlisten: "unix:/x.sock"\nqueue_sequences: 8\n'
                           'drain_timeout: "90s"\ncpu_helper: false\nverify_share: 0.5\n')
    shown = _print(f"--config={path}", "--queue_sequences=9", "--log_level", "warning", "--tokens_file=t")
    assert shown["max_calls"] == ("max_calls: 7", f"{path}:2")
    assert shown["listen"] == ('listen: "unix:/x.sock"', f"{path}:4")
    assert shown["drain_timeout"] == ('drain_timeout: "1m30s"', f"{path}:6")
    assert shown["cpu_helper"] == ("cpu_helper: false", f"{path}:7")
    assert shown["verify_share"] == ("verify_share: 0.5", f"{path}:8")
    assert shown["queue_sequences"] == ("queue_sequences: 9", "flag")
    assert shown["log_level"] == ('log_level: "warning"', "flag")
    assert shown["log_format"] == ('log_format: "text"', "default")
    assert shown["tokens_file"] == ('tokens_file: "t"', "flag; what it names is read again when it changes")
    assert shown["tls_cert"] == ('tls_cert: ""', "default")


def test_each_entry_of_a_list_has_its_own_line(tmp_path):
    path = _file(tmp_path, 'listen: "127.0.0.1:0"\nmax_calls: 7\n\nlisten: ["unix:/x.sock,unix:/y.sock",\n'
                           '  "unix:/z.sock"]\nplugin: ""\nplugin: "p.so"\n')
    lines = run_to_end("config", "print", f"--config={path}").stdout.splitlines()
    told = [tuple(line.split("  # ")) for line in lines if re.match("listen|plugin:", line)]
    assert told == [('listen: "127.0.0.1:0"', f"{path}:1"), ('listen: "unix:/x.sock"', f"{path}:4"),
                    ('listen: "unix:/y.sock"', f"{path}:4"), ('listen: "unix:/z.sock"', f"{path}:5"),
                    ('plugin: "p.so"', f"{path}:7")]


@pytest.mark.parametrize("descriptors, shown", [(256, "max_connections: 0  # default; 192, 64 below the limit of file descriptors\n"),
                                                (20000, "max_connections: 0  # default; 10000\n")])
def test_what_max_connections_stands_for_is_shown(descriptors, shown):
    """And is what is in force: the limit is the hard one."""
    done = subprocess.run(["prlimit", f"--nofile={descriptors}:{descriptors}", BINARY, "config", "print"],
                          capture_output=True, text=True, check=True)
    assert shown in done.stdout


def test_every_setting_is_shown():
    lines = run_to_end("config", "print").stdout.splitlines()[1:]
    assert {re.match(r"(?:# )?(\w+): ", line)[1] for line in lines} == set(
        re.findall(r"^  (?:optional|repeated) \w+ (\w+) = \d+;", SCHEMA, re.MULTILINE))
    assert "# plugin: none  # default" in lines


def test_what_is_printed_is_a_config_file(tmp_path):
    flags = ["--listen=127.0.0.1:0,unix:/x.sock", "--max_connection_age=inf", "--models=/a \"b\"\\c", "--nocpu_helper",
             "--verify_share=0.25", "--max_batch_delay=1.5ms"]
    first = run_to_end("config", "print", *flags).stdout
    again = run_to_end("config", "print", f"--config={_file(tmp_path, first)}").stdout
    assert [line.split("  # ")[0] for line in again.splitlines()] == [line.split("  # ")[0]
                                                                      for line in first.splitlines()]


@pytest.mark.parametrize("text, place, what", [
    ("max_calls: 5\nmax_cals: 5\n", ":2:9: ", "max_calls is one"),
    ("max_reply_bytes: 5\n", ":1:16: ", "no longer a setting: --max_message_bytes bounds replies as well"),
    ('max_calls: "many"\n', ":1:12: ", "integer"),
    ("max_calls: 99999999999\n", ":1:12: ", "range"),
    ("\n\nmax_calls 5\n", ":3:11: ", ":"),
    ("max_calls: 5\nmax_calls: 6\n", ":2:", "multiple times"),
    ('\ndrain_timeout: "3 moons"\n', ":2:1: ", "3 moons"),
    ("\n\nmax_calls: 0\n", ":3:1: ", "expected at least 1"),
    ('max_calls: 4  log_format: "yaml"\n', ":1:15: ", "text, json"),
    ('queue_sequences: 1\nlisten: "here"\n', ":2:1: ", "host:port"),
    ('listen: "a:1"\nqueue_sequences: 1\n  listen: "b:99999"\n', ":3:3: ", "not b:99999"),
    ('queue_sequences: 1\nmax_connections: 2000000000\n', ":2:1: ", "file descriptors"),
    ("\x00\x01\x02", ":1:", ""),
])
@pytest.mark.parametrize("words", [[], ["config", "print"]])
def test_mistakes_have_their_place(tmp_path, text, place, what, words):
    path = _file(tmp_path, text)
    done = run_to_end(*words, f"--config={path}")
    assert done.returncode == 1 and not done.stdout
    assert f"{path}{place}" in done.stderr and what in done.stderr, done.stderr


def test_files_that_cannot_be_read(tmp_path):
    for path in [tmp_path, tmp_path / "none"]:
        done = run_to_end(f"--config={path}")
        assert done.returncode == 1 and f"{path}: cannot be read" in done.stderr


def test_a_pipe_is_no_file(tmp_path):
    """Opening it would wait for somebody who writes, at the start or, once it serves, instead of for SIGTERM."""
    os.mkfifo(tmp_path / "pipe")
    done = run_to_end(f"--config={tmp_path}/pipe")
    assert done.returncode == 1 and f"{tmp_path}/pipe: cannot be read" in done.stderr
    path = _file(tmp_path, "max_calls: 100\n")
    server = Server(f"--config={path}")
    path.unlink()
    os.mkfifo(path)
    while "the next start will fail" not in server.log():
        assert server.alive()
    assert server.stop() == 0


@pytest.mark.parametrize("flag, expected", [
    ("--workers=2147483647", "0 to 4096"), ("--workers=-1", "0 to 4096"), ("--queue_sequences=0", "at least 1"), ("--admin_listen=unix:/x", "host:port"), ("--admin_listen=[::]:9464", "IPv4")])
def test_flags_out_of_range_are_told_as_the_log_is(flag, expected):
    done = run_to_end("--listen=127.0.0.1:0", "--log_format=json", flag)
    assert done.returncode == 1
    told = json.loads(done.stderr)["message"]
    assert told.startswith(f"{flag}: ") and expected in told


@pytest.mark.parametrize("flags, expected", [
    (["--max_cals=3"], "--max_cals is no flag; --max_calls is one; rnnserve --help lists them"),
    (["--max_reply_bytes=3"], "--max_reply_bytes is no longer a flag: --max_message_bytes bounds replies as well"),
    (["--max_tenant_models=2"], "--max_tenant_models is no longer a flag: --max_tenant_share bounds the bytes of one tenant's models"),
    (["--drain-timeout=3s"], "--drain-timeout is no flag; --drain_timeout is one"),
    (["--nolog_level"], "--nolog_level is no flag; --log_level is one"),
    (["--" + "x" * 100_000], "x is no flag; rnnserve --help"),
    (["--drain_timeout=30"], "--drain_timeout=30: expected a duration such as 500ms, 30s"),
    (["--max_calls", "4k"], "--max_calls=4k: expected a whole number"),
    (["--session_bytes=8GiB"], "--session_bytes=8GiB: expected a whole number of 64 bits, without unit"),
    (["--cpu_helper=maybe"], "--cpu_helper=maybe: expected true or false"),
    (["--listen"], "--listen: expected a value behind it, as in --listen=VALUE")])
def test_mistakes_of_the_command_line(flags, expected):
    done = run_to_end("--log_format=json", *flags)
    assert done.returncode == 1 and not done.stdout
    assert expected in json.loads(done.stderr)["message"]


def test_version_and_help():
    assert re.fullmatch(r"rnnserve \d+\.\d+\.\d+\n", run_to_end("--version").stdout)
    for word in ["--help", "-h"]:
        done = run_to_end("--max_calls=7", word)
        assert done.returncode == 0 and "--max_calls=4096\n" in done.stdout


def test_the_environment_goes_before_the_file(tmp_path, monkeypatch):
    """As flags do; Abseil's --fromenv reads it."""
    monkeypatch.setenv("FLAGS_max_calls", "5")
    shown = _print(f"--config={_file(tmp_path, 'max_calls: 6')}", "--fromenv=max_calls")
    assert shown["max_calls"] == ("max_calls: 5", "flag")


def test_what_cannot_be_printed_is_told():
    for words in [["config", "print"], ["--help"]]:
        with open("/dev/full", "w") as full:
            done = subprocess.run([BINARY, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert done.returncode == 1 and "standard output cannot be written" in done.stderr


def test_a_huge_file_is_not_read(tmp_path):
    path = _file(tmp_path, "max_calls: 5")
    os.truncate(path, 1 << 36)  # holes
    done = run_to_end(f"--config={path}")
    assert done.returncode == 1 and f"{path}: has more than 1048576 bytes" in done.stderr


def test_a_flag_mends_what_the_file_has_wrong(tmp_path):
    path = _file(tmp_path, "max_calls: 0\n")
    assert run_to_end("config", "print", f"--config={path}").returncode == 1
    assert _print(f"--config={path}", "--max_calls=3")["max_calls"] == ("max_calls: 3", "flag")


def test_a_running_server_tells_what_takes_a_restart(tmp_path):
    path = _file(tmp_path, "max_calls: 100\nqueue_sequences: 5\n")
    server = Server(f"--config={path}", "--queue_sequences=6")
    try:
        def told(text, wanted):
            path.write_text(text)
            while wanted not in server.log():
                assert server.alive()

        told("max_calls: 101\nqueue_sequences: 7\nmax_sessions: 3\n", "a restart is needed for max_calls, max_sessions\n")
        told("max_calls: many\n", f"the next start will fail: {path}:1:12: ")
        told("queue_sequences: 9\nmax_calls: 0\n", f"the next start will fail: {path}:2:1: max_calls=0: expected at least 1")
        told('max_calls: 7\ndrain_timeout: "3 moons"\n', f"the next start will fail: {path}:2:1: drain_timeout: ")
        told("max_calls: 100\n", "is again as it was at the start")
        assert "queue_sequences" not in server.log(), "a flag overrides it"
        assert all(line[:4].isdigit() for line in server.log().splitlines()), "lines of the server's own log alone"
    finally:
        assert server.stop() == 0


def test_it_serves_by_its_file(tmp_path):
    server = Server("--config=%s" % _file(tmp_path, 'engine: "reference"'))
    try:
        assert server.recurrent.Infer(wire.request(_case())).engine == "reference"
    finally:
        assert server.stop() == 0


def test_there_are_as_many_workers_as_cpus_that_may_be_used():
    """taskset leaves it one."""
    cpu = min(os.sched_getaffinity(0))
    def start(*words):
        return subprocess.Popen(["taskset", "-c", str(cpu), BINARY, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True)
    shown = start("config", "print").communicate()[0]
    assert "workers: 0  # default; 1, the " in shown
    assert "workers: 0  # flag; 1, the " in start("config", "print", "--workers=0").communicate()[0]
    assert "workers: 2  # flag\n" in start("config", "print", "--workers=2").communicate()[0]
    server = start("--listen=127.0.0.1:0", "--admin_listen=")
    told = next(line for line in server.stderr if "listening on" in line)
    server.terminate()
    server.communicate()
    assert server.returncode == 0 and told.endswith(" with 1 workers and 0 models\n")


def test_a_memory_limit_lowers_what_nobody_has_set():
    limit = 1600 << 20
    shown = _print(f"--memory_limit={limit}", "--session_bytes=77")
    assert shown["memory_limit"] == (f"memory_limit: {limit}", "flag")
    assert shown["session_bytes"] == ("session_bytes: 77", "flag")
    assert shown["packed_weight_bytes"] == (f"packed_weight_bytes: {600 << 20}", "6/16 of the memory limit")
    assert _print(f"--memory_limit={1 << 50}")["packed_weight_bytes"][1] == "default", "not raised"


def test_a_limit_that_nothing_could_be_served_with():
    least = 48 << 20
    for words in [[], ["config", "print"]]:
        done = run_to_end(*words, f"--memory_limit={least - 1}", "--listen=127.0.0.1:0")
        assert done.returncode == 1 and f"--memory_limit={least - 1}: expected at least {least}" in done.stderr
    server = Server(f"--memory_limit={least}")
    try:
        calls = [server.recurrent.Infer.future(wire.request(_case()), timeout=60) for _ in range(50)]
        assert {call.code().name for call in calls} == {"OK"}
    finally:
        assert server.stop() == 0


def test_near_its_memory_limit_it_refuses_what_is_not_alone():
    """Hardly more than the process takes by itself: large calls pass a few at a time. Each of them waits for others, so
    that they meet however fast the machine runs them."""
    server = Server(f"--memory_limit={48 << 20}", "--max_batch_delay=1s")
    try:
        assert server.recurrent.Infer(wire.request(_case())).outputs
        large = wire.request(_case(steps=4000, rows=8))
        calls = [server.recurrent.Infer.future(large, timeout=60) for _ in range(256)]
        codes = {call.code().name for call in calls}
        assert codes == {"OK", "RESOURCE_EXHAUSTED"}, codes
        text = next(call.details() for call in calls if call.code().name != "OK")
        assert f"{48 << 20} bytes that it may take" in text
        assert server.recurrent.Infer(wire.request(_case())).outputs
    finally:
        assert server.stop() == 0
