"""Tests of ``gateway.settings``: declarations, files, sources and their order."""
