"""Tests of gateway.replication."""
