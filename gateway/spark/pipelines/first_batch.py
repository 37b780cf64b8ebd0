"""The half-written files of a driver that was killed while it noted its first batch; Spark does not start on them.

Spark first writes a file of its logs under another name (``.0.<uuid>.tmp``) and then renames the file. If a
checkpoint's ``offsets`` has only such files, no batch was planned and no message was read. Still, Spark 4.3 refuses the
checkpoint (STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY), because it expects an empty directory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def forget_half_written(spark: SparkSession, checkpoint: str) -> None:
    """Delete the half-written files of a checkpoint without a batch, on any filesystem that Spark writes to.

    :param spark: a session with its JVM, not one over Spark Connect.
    """
    java: Any = spark
    offsets = java._jvm.org.apache.hadoop.fs.Path(checkpoint, "offsets")
    files = offsets.getFileSystem(java._jsc.hadoopConfiguration())
    if not files.exists(offsets):
        return
    found = [status.getPath() for status in files.listStatus(offsets)]
    if all(_is_half_written(path.getName()) for path in found):
        for path in found:
            files.delete(path, False)


def _is_half_written(name: str) -> bool:
    return name.startswith(".") and name.endswith(".tmp")
