"""Processors that do not sleep while something is measured.

A virtual machine's processor that has nothing to do is given to others, and comes back when its host finds time. A
server that always does something never lets one go, whatever is asked of it; one that waits for requests does after
each. So that both are measured alike the kernel is asked to wait for work instead, as one would turn off the idle
states of a machine of one's own. To the kernel such a processor is still one that has nothing to do, and it takes
waiting threads from others; a program of the lowest priority in its place would keep it from that, and a server of
many threads from its speed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LATENCY = Path("/dev/cpu_dma_latency")
"""Takes how many microseconds a processor may need to wake, for as long as it is open (pm_qos_interface of Linux)."""
_DRIVER = Path("/sys/devices/system/cpu/cpuidle/current_driver")
_NONE = (0).to_bytes(4, sys.byteorder)


@contextmanager
def awake(latency: Path = _LATENCY, driver: Path = _DRIVER) -> Iterator[None]:
    """No processor of this machine sleeps in the block.

    :raises SystemExit: the kernel cannot be asked, or would not heed it.
    """
    try:
        name = driver.read_text().strip()
        request = latency.open("wb", buffering=0)
    except OSError as error:
        sys.exit(
            f"the processors cannot be kept awake: {error}; it needs root and Linux with cpuidle, or go without --awake"
        )
    with request:
        if name == "none":
            sys.exit(f"the processors cannot be kept awake: no driver in {driver} heeds it; go without --awake")
        request.write(_NONE)
        yield
