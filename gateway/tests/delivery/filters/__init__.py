"""Tests of gateway.delivery.filters."""
