"""Tests of gateway.membership."""
