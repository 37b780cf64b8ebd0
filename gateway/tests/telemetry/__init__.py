"""Tests of ``gateway.telemetry``."""
