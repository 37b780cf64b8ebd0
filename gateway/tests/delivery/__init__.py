"""Tests of gateway.delivery."""
