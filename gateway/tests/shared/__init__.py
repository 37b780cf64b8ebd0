"""Tests of the modules that all packages of the gateway share."""
