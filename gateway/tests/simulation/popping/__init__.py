"""Histories in which a group pops besides."""
