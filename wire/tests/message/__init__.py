"""Tests of ``wire.message``; one file per source file."""
