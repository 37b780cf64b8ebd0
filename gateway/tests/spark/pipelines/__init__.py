"""Tests of the pipelines' parts that need no Spark; those with it are in `compat_tests/spark`."""
