"""Tests of the repository: its pages, its package, and which of its tests are run compiled."""
