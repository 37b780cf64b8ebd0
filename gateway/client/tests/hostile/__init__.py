"""Tests of every client against servers that break the protocol."""
