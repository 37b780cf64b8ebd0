"""Tests of the key index."""
