"""JAX: a jitted matrix product, step after step, checked against numpy; then a request for 4 GiB."""

import jax
import jax.numpy as jnp
import numpy

import marks

SIZE = 256
STEPS = 10


@jax.jit
def step(x, w):
    """Whole numbers below 2048 all the way, so that every algorithm, TF32's too, gives the same digits."""
    return jnp.mod(x @ w, 7)


def main():
    # Values are prepared and checked on the host.
    x_host = (numpy.arange(SIZE * SIZE) % 5).reshape(SIZE, SIZE).astype("float32")
    w_host = (numpy.arange(SIZE * SIZE) % 3 == 0).reshape(SIZE, SIZE).astype("float32")
    x, w = jax.device_put(x_host), jax.device_put(w_host)
    marks.say("device", jax.devices()[0])

    def steps(x):
        for _ in range(STEPS):
            x = step(x, w)
        return x.block_until_ready()

    x = steps(x)  # the first step compiles; graphs, where JAX makes any, are made in the first few
    windows = []
    for _ in range(2):
        with marks.Window() as window:
            x = steps(x)
        windows.append(window)
    if windows[0].calls is not None:
        # The same work takes the same number of launches, at least one a step.
        marks.say("expected.launches", windows[0].count("launch"))
        marks.say("logged.launches", windows[1].count("launch"))
        marks.say("expected.launch_in_every_step", True)
        marks.say("logged.launch_in_every_step", windows[1].count("launch") >= STEPS)
        marks.say("hook.launches", windows[1].apis("launch"))

    for _ in range(3 * STEPS):
        x_host = (x_host @ w_host) % 7
    if not (numpy.asarray(x) == x_host).all():
        raise marks.Wrong("the result")
    marks.say("result.sum", int(x_host.sum(dtype="float64")))

    marks.big(lambda: jnp.zeros(1 << 30, jnp.float32).block_until_ready(), jax.errors.JaxRuntimeError)


marks.main(main)
