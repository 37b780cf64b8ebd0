"""Tests of what a start reads and of what is written for it."""
