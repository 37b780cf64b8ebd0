"""Tests of the Spark source; those of its working within Spark are in compat_tests."""
