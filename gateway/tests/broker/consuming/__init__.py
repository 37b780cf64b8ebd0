"""Tests of what consumers ask for and are told, in the whole broker."""
