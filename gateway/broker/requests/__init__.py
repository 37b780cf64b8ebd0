"""The requests a broker answers, one small file per conversation.

Each class takes what it works with by keyword and registers its methods on a ``Dispatch``. What is decided
here is the answer; state and rules live in the packages below.
"""
