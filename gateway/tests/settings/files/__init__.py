"""Tests of settings as people write them."""
