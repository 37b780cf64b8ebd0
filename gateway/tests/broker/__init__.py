"""Tests of gateway.broker."""
