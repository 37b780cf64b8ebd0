"""Tests of the sink and of its half messages."""
