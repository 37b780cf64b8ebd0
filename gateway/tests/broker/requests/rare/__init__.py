"""Tests of the requests of administration tools."""
