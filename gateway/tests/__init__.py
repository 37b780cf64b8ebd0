"""Tests of the gateway; the folders mirror the packages."""
