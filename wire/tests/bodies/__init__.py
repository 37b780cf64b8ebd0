"""Tests of ``wire.bodies``; one file per source file."""
