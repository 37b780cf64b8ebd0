"""Planted bugs: each breaks one rule of replication, and the simulation has to find it within some seeds.

``bugs`` has them. ``python -m gateway.tests.simulation.planted`` looks for each, and prints the seed that finds it.
"""
