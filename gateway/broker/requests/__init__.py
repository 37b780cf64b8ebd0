"""The requests that a broker answers, one small file per conversation.

Each class takes its collaborators from the broker's desk, and its methods declare the codes that they answer. The
loader finds the class by its folder. The classes decide the answers only. State and rules live in the packages below.
"""
