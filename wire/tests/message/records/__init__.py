"""Tests of stored records."""
