"""Tests of opening a store directory, whatever happened to it."""
