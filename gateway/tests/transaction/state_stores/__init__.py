"""The state stores besides ``queue``: each alone, and all of them under what is promised of transactions."""
