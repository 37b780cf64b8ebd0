"""Tests of the bodies for tools of operators."""
