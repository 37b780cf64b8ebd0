"""Tests of files, memory maps, names and locks."""
