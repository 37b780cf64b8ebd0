"""Tests of long lists: when they are made, and in which pieces."""
