"""Times a training step of a small model in PyTorch: step_torch.py STEPS

A step ends with a synchronisation, so that its kernels are in its time. Out: `step`, ns a step, the median, and the steps.
"""

import statistics
import sys
import time

import torch


def main():
    steps = int(sys.argv[1])
    torch.manual_seed(0)
    x = torch.randn(4096, 1024, device="cuda")
    y = torch.randn(4096, 1, device="cuda")
    layers = [layer for _ in range(4) for layer in (torch.nn.Linear(1024, 1024), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(1024, 1)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    each = []
    for _ in range(50 + steps):
        begun = time.perf_counter_ns()
        loss = ((model(x) - y) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        each.append(time.perf_counter_ns() - begun)
    print("step", statistics.median(each[50:]), steps)


main()
