"""The heap of a Python worker of Spark: what its first task has loaded stays there.

PySpark has a worker collect garbage after every task. Python looks at all objects for it, of which Spark, Arrow, numpy
and pandas load 85,000: 20 to 45 ms, many times what a small task takes.
"""

from __future__ import annotations

import gc
from functools import cache

from pyspark import TaskContext


def keep_what_is_loaded() -> None:
    """In a task: let the collections to come pass over what there is now. Garbage is collected first.

    It counts once in a process. What is freed without a collection is freed as before.
    """
    if TaskContext.get() is not None:
        _keep_once()


@cache
def _keep_once() -> None:
    gc.collect()
    gc.freeze()
