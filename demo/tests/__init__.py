"""Of what can be said without Spark and without Docker; `compat_tests/test_demo.py` runs all of it."""
