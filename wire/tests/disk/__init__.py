"""Tests of ``wire.disk``; one file per source file."""
