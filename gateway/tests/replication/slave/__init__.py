"""Tests of the slave."""
