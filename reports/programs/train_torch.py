"""Thirty training steps of a small model in PyTorch, the loss with six digits, then a request for 4 GiB.

    train_torch.py            train
    train_torch.py profiled   the same under CUPTI as well, to compare its counts with the hook's
"""

import sys

import torch

import marks

MIB = 1 << 20


def step(model, optimizer, x, y):
    loss = ((model(x) - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def main():
    torch.manual_seed(0)
    x = torch.randn(512, 64, device="cuda")
    y = torch.randn(512, 1, device="cuda")
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(30):
        loss = step(model, optimizer, x, y)
    marks.say("result.loss", f"{loss.item():.6f}")
    marks.say("memory.total_mb", torch.cuda.mem_get_info()[1] // MIB)

    if "profiled" in sys.argv[1:]:
        import cupti

        def work():
            for _ in range(10):
                step(model, optimizer, x, y)

        def allocate():  # blocks too large to come from what the allocator keeps
            blocks = [torch.empty(64 * MIB, dtype=torch.uint8, device="cuda") for _ in range(3)]
            blocks.clear()
            torch.cuda.empty_cache()

        cupti.compare(work, allocate)

    marks.big(lambda: torch.empty(4096 * MIB, dtype=torch.uint8, device="cuda"), torch.OutOfMemoryError)


marks.main(main)
