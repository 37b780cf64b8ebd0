"""Tests of the commands about a store directory."""
