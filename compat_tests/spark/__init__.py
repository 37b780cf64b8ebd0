"""The Spark source and sink within Spark: one `local[2]` session for all tests, and a gateway as a process."""
