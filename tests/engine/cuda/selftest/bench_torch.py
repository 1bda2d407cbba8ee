#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The shapes of cuda_selftest's benchmarks through torch's own cuDNN calls, for comparison with its tables.

    python3 bench_torch.py

float32 with TF32 off, I = H, microseconds a call (median). "device": x and y stay on the device. "host": x comes from
page-locked memory and y goes back to it, as a server would do it. Streaming keeps the states of all sessions in one
table on the device and steps a random subset of rows.
"""
import statistics
import time

import torch

SHAPES = [(1, 1, 128), (1, 1, 256), (1, 1, 512), (1, 1, 1024), (1, 32, 512), (1, 64, 1024), (32, 1, 512), (32, 16, 256),
          (64, 32, 512), (100, 1, 256), (16, 64, 1024)]


def median_us(call):
    for _ in range(10):
        call()
    times = []
    end = time.perf_counter() + 0.06
    while len(times) < 5 or (len(times) < 400 and time.perf_counter() < end):
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e6)
    return statistics.median(times)


def calls():
    print(f"{'op':5} {'T':>4} {'N':>4} {'H':>5} | {'device':>9} {'host':>9}")
    for kind in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
        for steps, rows, hidden in SHAPES:
            net = kind(hidden, hidden).cuda()
            x = torch.randn(steps, rows, hidden).pin_memory()
            out = torch.empty(steps, rows, hidden).pin_memory()
            on_device = x.cuda()

            def device():
                net(on_device)
                torch.cuda.synchronize()

            def host():
                y, _ = net(x.cuda(non_blocking=True))
                out.copy_(y, non_blocking=True)
                torch.cuda.synchronize()

            print(f"{kind.__name__:5} {steps:4} {rows:4} {hidden:5} | {median_us(device):9.1f} {median_us(host):9.1f}", flush=True)


def streaming():
    print(f"\nstreaming, T = 1\n{'op':5} {'N':>5} {'H':>5} | {'device':>9} {'host':>9}")
    for kind in (torch.nn.LSTM, torch.nn.GRU):
        for hidden in (128, 512):
            for rows in (64, 256, 1024, 4096):
                net = kind(hidden, hidden).cuda()
                table = [torch.zeros(2 * rows, hidden, device="cuda") for _ in range(2 if kind is torch.nn.LSTM else 1)]
                sessions = torch.randperm(2 * rows)[:rows]
                pinned_sessions = sessions.pin_memory()
                x = torch.randn(1, rows, hidden).pin_memory()
                out = torch.empty(1, rows, hidden).pin_memory()
                on_device = x.cuda()
                index = sessions.cuda()

                def step(inputs, at):
                    state = [part.index_select(0, at).unsqueeze(0) for part in table]
                    y, new = net(inputs, tuple(state) if len(state) == 2 else state[0])
                    for part, value in zip(table, new if len(state) == 2 else (new,)):
                        part.index_copy_(0, at, value[0])
                    return y

                def device():
                    step(on_device, index)
                    torch.cuda.synchronize()

                def host():
                    y = step(x.cuda(non_blocking=True), pinned_sessions.cuda(non_blocking=True))
                    out.copy_(y, non_blocking=True)
                    torch.cuda.synchronize()

                print(f"{kind.__name__:5} {rows:5} {hidden:5} | {median_us(device):9.1f} {median_us(host):9.1f}", flush=True)


def main():
    if not torch.cuda.is_available():
        print("SKIPPED: torch sees no CUDA device")
        raise SystemExit(77)
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.manual_seed(1)
    print(f"torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, {torch.cuda.get_device_name()}, TF32 off")
    with torch.inference_mode():
        calls()
        streaming()


if __name__ == "__main__":
    main()
