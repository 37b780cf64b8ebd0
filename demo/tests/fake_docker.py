"""A stand-in for Docker: its commands as far as the demonstration needs them, and a shop in a few lines.

FAKE_DOCKER is what goes wrong; every call is written down in FAKE_DOCKER_CALLS.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

TROUBLE = os.environ.get("FAKE_DOCKER", "")


def main(words: list[str]) -> int:
    """Do what Docker would."""
    with Path(os.environ["FAKE_DOCKER_CALLS"]).open("a") as calls:
        calls.write(" ".join(words) + "\n")
    match words:
        case ["version", *_]:
            return version()
        case ["build", *_]:
            return build()
        case ["run", *_]:
            return run()
        case _:  # "image inspect", "rm"
            return 0


def version() -> int:
    """Print the version of the engine."""
    if TROUBLE == "hangs":
        signal.pause()
    if TROUBLE == "no engine":
        print("Cannot connect to the Docker daemon", file=sys.stderr)
        return 1
    print("27.0")
    return 0


def build() -> int:
    """An image."""
    if TROUBLE == "no build":
        print("Step 2: unable to resolve host", file=sys.stderr)
        return 100
    print("sha256:5409")
    return 0


def run() -> int:
    """The shop."""
    if TROUBLE == "no route":
        print("No route info of this topic: orders", flush=True)
        return 1
    print("ready", flush=True)
    for line in sys.stdin:
        if TROUBLE == "dies":
            print("failed RemotingTooMuchRequestException", flush=True)
            return 1
        print(f"log4j: {line.strip()}")
        print("committed A\nrolled_back B\nforgotten C committed\nforgotten D rolled_back")
        print("checked C committed\ntraded", flush=True)
    if TROUBLE == "stays":
        signal.pause()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
