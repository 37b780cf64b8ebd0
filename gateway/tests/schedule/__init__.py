"""Tests of gateway.schedule."""
