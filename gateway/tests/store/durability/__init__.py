"""Tests of the steps from an appended message to an answered sender."""
