# SPDX-License-Identifier: Apache-2.0
"""`./demo.sh --speech --live` as a user runs it, and a Prometheus that scrapes its server every second: sessions and
slices are seen to move while it runs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import wire
from test_prometheus import Prometheus, _free_port

SECONDS = 1800  # the first time the demo builds
INTERVAL = "1s"


class PatientPrometheus(Prometheus):
    def edit(self, config, folder):
        return super().edit(config, folder).replace("scrape_interval: 200ms", f"scrape_interval: {INTERVAL}")

    def values(self, expression, began) -> list[float]:
        """Those of the first series since `began`, a second apart."""
        query = urllib.parse.urlencode({"query": expression, "start": began, "end": time.time(), "step": INTERVAL})
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v1/query_range?{query}", timeout=60) as answer:
            result = json.load(answer)["data"]["result"]
        return [float(value) for _, value in result[0]["values"]] if result else []


def test_sessions_and_slices_move_while_the_speech_demo_runs(tmp_path, tell):
    with contextlib.ExitStack() as stack:
        address = f"127.0.0.1:{_free_port()}"
        prometheus = PatientPrometheus([address], tmp_path)
        stack.callback(prometheus.stop)
        prometheus.await_value('up{job="rnnserve"}', lambda value: value == 0)
        demo = subprocess.Popen(["./demo.sh", "--speech", "--live", "--picture", tmp_path / "vad.png"],
                                cwd=wire.REPOSITORY, env={**os.environ, "ADMIN_LISTEN": address},
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        late = threading.Timer(SECONDS, demo.kill)
        late.start()
        stack.callback(late.cancel)
        said = []
        for line in demo.stdout:
            said.append(line)
            if f"http://{address}/" in line:
                began = time.time()
        assert demo.wait() == 0, "".join(said)
        took = time.time() - began
        recordings, chunks = map(int, re.search(r"(\d+) recordings at once, (\d+) chunks", "".join(said)).groups())
        model = '{model="silero-vad-16k"}'
        active = prometheus.values(f"rnnserve_sessions_active{model}", began)
        slices = prometheus.values(f"sum(rnnserve_slices_total{model})", began)
        steps = prometheus.values('rnnserve_sequence_steps_total{model="silero-vad-16k",kind="useful"}', began)
    tell(f"speech demo, {took:.0f} s, a scrape every {INTERVAL}: rnnserve_sessions_active up to {max(active):.0f}; "
         f"rnnserve_slices_total {slices[0]:.0f} to {slices[-1]:.0f} and rnnserve_sequence_steps_total {steps[0]:.0f} "
         f"to {steps[-1]:.0f} over {len(steps)} points, {len(set(steps))} of them different")
    assert max(active) == recordings
    assert slices == sorted(slices) and len(set(slices)) > 2
    assert steps == sorted(steps) and len(set(steps)) > 2 and chunks / 2 < steps[-1] <= chunks
