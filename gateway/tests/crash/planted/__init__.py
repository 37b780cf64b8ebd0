"""Planted bugs, and the tests that each of them is found."""
