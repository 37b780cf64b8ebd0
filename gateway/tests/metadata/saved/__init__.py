"""Tests of tables as JSON files."""
