"""The classes of Spark as Java keeps them ready (class data sharing): a driver starts at half the cost.

Java itself looks whether an archive fits, and goes on without it where it does not.
"""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path

from compat_tests.environment import REPOSITORY
from compat_tests.spark.driver import Driver

_PATH = REPOSITORY / "build" / "spark-classes.jsa"
_TIMEOUT_S = 600.0


def class_archive() -> Path:
    """The archive; made by the first who asks, with a driver that streams a little and ends. A minute or two."""
    if not _PATH.exists():
        _PATH.parent.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="spark-classes-", dir=_PATH.parent) as folder:
            made = Path(folder) / _PATH.name
            with closing(Driver("local[2,4]", Path(folder) / "spark.log", classes=made, is_recording=True)) as driver:
                driver.ask("warm_up", timeout_s=_TIMEOUT_S, path=str(Path(folder) / "streamed"))
                driver.finish(_TIMEOUT_S)
            made.replace(_PATH)
    return _PATH
