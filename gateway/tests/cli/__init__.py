"""Tests of ``gateway.cli``: no server is started but memory ones, no port is opened."""
