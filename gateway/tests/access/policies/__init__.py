"""Tests of gateway.access.policies."""
