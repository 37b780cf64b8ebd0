"""Tests of gateway.access."""
