"""Tests of retention, deletion and full disks."""
