"""Trials in which the gateway, Spark's workers, its executors or its driver are killed; open ``kills`` first."""
