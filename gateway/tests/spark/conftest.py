"""Fixtures of tests that need the packages of the extra ``spark``; without these packages the tests are left out."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob = (
    []
    if find_spec("pyarrow") and find_spec("pyspark")
    else [
        "test_*.py",
        "asking/test_*.py",
        "reading/test_*.py",
        "table/test_*.py",
        "writing/test_*.py",
        "pipelines/test_avro.py",
        "pipelines/test_transactions.py",
    ]
)
