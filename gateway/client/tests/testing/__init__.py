"""Tests of the testing kit: it starts real gateways."""
