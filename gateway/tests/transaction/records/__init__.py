"""Tests of the records of transactions in the log, and of reading them."""
