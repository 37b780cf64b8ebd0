"""``rocketmq-gateway access``: users and policies of a running broker, and who may do what, and why."""
