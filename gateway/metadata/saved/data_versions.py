"""The version of a table after a change.

Upstream: ``DataVersion.nextVersion``. Name servers take a table again when any of the numbers differs.
"""

from __future__ import annotations

from wire.bodies.topics import DataVersion


def next_version(version: DataVersion, now_ms: int) -> DataVersion:
    """One more change, made now; ``state_version`` is the controller's and stays."""
    return DataVersion(counter=version.counter + 1, timestamp=now_ms, state_version=version.state_version)
