"""Processors that do not sleep while something is measured.

The host of a virtual machine may give an idle processor to other guests, and the processor comes back late. A server
that always has work loses less of its processors by this than a server that waits for requests. To measure both servers
alike, the kernel lets idle processors poll for work instead of halting them, as a machine does whose idle states are
turned off. The kernel's scheduler still counts such a processor as idle.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LATENCY = Path("/dev/cpu_dma_latency")
"""Takes how many microseconds a processor may need to wake, for as long as it is open (pm_qos_interface of Linux)."""
_QUICKEST = Path("/sys/devices/system/cpu/cpu0/cpuidle/state0/name")
"""The idle state that is left when it may need none; not on every processor is it one in which it does not halt."""
_NONE = (0).to_bytes(4, sys.byteorder)


@contextmanager
def awake(latency: Path = _LATENCY, quickest: Path = _QUICKEST) -> Iterator[None]:
    """No processor of this machine sleeps in the block.

    :raises SystemExit: the kernel cannot be asked, or would not heed it.
    """
    try:
        if (state := quickest.read_text().strip()) != "POLL":
            raise ValueError(f"their quickest idle state is {state}, not POLL")
        request = os.open(latency, os.O_WRONLY)
        os.write(request, _NONE)
    except (OSError, ValueError) as error:
        sys.exit(f"the processors cannot be kept awake: {error}; it needs root, and Linux with cpuidle")
    try:
        yield
    finally:
        os.close(request)
