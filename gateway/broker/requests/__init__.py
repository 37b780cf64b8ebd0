"""The requests a broker answers, one small file per conversation.

Each class takes what it works with from the broker's desk and registers its methods on a ``Dispatch``; the loader
finds it by its folder. What is decided here is the answer; state and rules live in the packages below.
"""
