"""Tests of the commit log and of walking it."""
