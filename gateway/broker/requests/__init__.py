"""The requests that a broker answers, one small file per conversation.

Each class takes its collaborators from the broker's desk and registers its methods with a ``Dispatch``; the loader
finds the class by its folder. The classes decide the answers only. State and rules live in the packages below.
"""
