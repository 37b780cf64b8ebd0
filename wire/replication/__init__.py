"""The bytes between masters and slaves: with ``brokerRole`` alone, and in a group with a controller."""
