"""Tests of gateway.metadata."""
