"""Tests of planning and reading: batch queries and streams."""
