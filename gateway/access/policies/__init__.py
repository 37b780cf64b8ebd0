"""Users and policies of Apache RocketMQ 5.3 and later: who they are, what they may do, and the file that keeps them.

Open ``policy`` first: a policy is a list of entries, and the best entry that fits decides. ``users`` has the accounts,
``edits`` the changes that tools ask for, ``access_file`` the JSON text, and ``kept_users`` the file on disk. No request
is read or answered here.
"""
