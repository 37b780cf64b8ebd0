"""Tests of what people see of transactions, and of the record of what people did."""
