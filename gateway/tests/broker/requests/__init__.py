"""Tests of gateway.broker.requests."""
