"""The programs, the settings, and what is run in which: read by run.py and report.py."""

import os
import sys
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.join("build", "gpu")

NONE, RECORD, QUOTA, DENY, WAIT = SETTINGS = ("none", "record", "quota", "deny", "wait")
MEANING = {
    NONE: "without the hook",
    RECORD: "under the hook, no limit",
    QUOTA: "`CUDA_MEM_QUOTA_MB`",
    DENY: "`CUDA_CORE_RATE` and `CUDA_CORE_CAPACITY`, `CUDA_CORE_POLICY=deny`, `CUDA_CORE_DENY_ERROR=719`",
    WAIT: "the same rate and capacity, `CUDA_CORE_POLICY=wait`",
}
DENY_ERROR = 719


@dataclass(frozen=True)
class Program:
    """One program and what its runs are held to.

    `rate` and `capacity` are such that its launches exceed them at once, and that `wait` takes a few seconds.
    """

    name: str
    what: str
    argv: tuple
    settings: tuple = SETTINGS
    quota_mb: int = 256
    rate: float = 20
    capacity: float = 10
    env: dict = field(default_factory=dict)
    # It reads its own records while it runs, so each must be written before the call returns.
    reads_log: bool = False
    # What the text of a refusal under the quota must hold.
    refusal: str = "out of memory"
    # Its allocator keeps itself within what the driver says there is: the hook may have nothing to refuse.
    keeps_within: bool = False
    # The program whose run without the hook has the right results; itself, where not said.
    same_as: str = ""

    @property
    def reference(self):
        return self.same_as or self.name


def native(name, what, *argv):
    return Program(name, what, tuple(os.path.join(BUILD, argument) for argument in argv))


def python(name, what, *argv, **more):
    more = {"quota_mb": 2048, "reads_log": True, **more}
    return Program(name, what, (sys.executable, os.path.join(HERE, argv[0]), *argv[1:]), **more)


EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
# JAX would fall back on the CPU.
XLA_GPU = {"JAX_PLATFORMS": "cuda"}
NO_PREALLOCATION = {**XLA_GPU, "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
# The quota is what PyTorch must take for the device's size.
TORCH = {"refusal": "total capacity of 2.00 GiB"}
TRAINING = {**TORCH, "rate": 500, "capacity": 50, "reads_log": False}
ADDING = {**TORCH, "rate": 50, "capacity": 10}
XLA = {"rate": 200, "capacity": 20, "refusal": "RESOURCE_EXHAUSTED", "keeps_within": True}

PROGRAMS = (
    native("launches", "`<<<…>>>`, shared runtime", "launches"),
    native("launches-static", "`<<<…>>>`, static runtime", "launches_static"),
    native("launches-per-thread", "`<<<…>>>`, per-thread default streams", "launches_per_thread"),
    native("graph", "CUDA graph, shared runtime", "graph_launches"),
    native("graph-static", "CUDA graph, static runtime", "graph_launches_static"),
    native("driver", "driver API, linked with -lcuda", "driver_linked", "add.ptx"),
    native("driver-dlsym", "driver API by dlopen and dlsym", "driver_dlsym", "add.ptx"),
    python("torch", "PyTorch, 30 training steps", "train_torch.py", **TRAINING),
    python("torch-expandable", "the same, expandable segments", "train_torch.py", env=EXPANDABLE, same_as="torch",
           **TRAINING),
    python("torch-profiled", "the same under CUPTI", "train_torch.py", "profiled", settings=(RECORD,), same_as="torch",
           **TORCH),
    python("triton", "Triton, vector addition", "add_triton.py", **ADDING),
    python("triton-profiled", "the same under CUPTI", "add_triton.py", "profiled", settings=(RECORD,),
           same_as="triton", **TORCH),
    python("cupy", "CuPy, elementwise and matrix product", "arrays_cupy.py", rate=50, capacity=10),
    python("jax", "JAX, jitted steps", "steps_jax.py", env=NO_PREALLOCATION, **XLA),
    python("jax-preallocate", "the same, memory taken in advance", "steps_jax.py", settings=(QUOTA,), same_as="jax",
           env=XLA_GPU, **XLA),
)


def hook_environment(program, setting, hook, log, events):
    """The variables that make `setting` of `program`; none of them without the hook."""
    if setting == NONE:
        return {}
    env = {"LD_PRELOAD": hook, "CUDA_HOOK_LOG": log, "CUDA_HOOK_EVENTS": events}
    if program.reads_log:
        env["CUDA_HOOK_SYNC"] = "1"
    if setting == QUOTA:
        env["CUDA_MEM_QUOTA_MB"] = str(program.quota_mb)
    if setting in (DENY, WAIT):
        env |= {"CUDA_CORE_RATE": str(program.rate), "CUDA_CORE_CAPACITY": str(program.capacity),
                "CUDA_CORE_POLICY": setting, "CUDA_CORE_DENY_ERROR": str(DENY_ERROR)}
    return env
