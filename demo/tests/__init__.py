"""Tests of the demonstration that need neither Spark nor Docker; `compat_tests/test_demo.py` runs all of it."""
