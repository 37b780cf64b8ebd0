"""Tests of the columns, and of records as Arrow columns."""
