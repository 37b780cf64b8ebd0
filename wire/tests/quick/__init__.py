"""Tests of the shorter ways: they give what the plain ways give."""
