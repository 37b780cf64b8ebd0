"""The version of a table after a change.

Upstream: ``DataVersion.nextVersion``. Name servers read a table again if any number of its version differs.
"""

from __future__ import annotations

from wire.bodies.topics import DataVersion


def next_version(version: DataVersion, now_ms: int) -> DataVersion:
    """Return the version after one more change, made now; ``state_version`` belongs to the controller and stays."""
    return DataVersion(counter=version.counter + 1, timestamp=now_ms, state_version=version.state_version)
