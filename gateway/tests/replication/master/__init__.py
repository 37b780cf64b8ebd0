"""Tests of the master's side of replication."""
