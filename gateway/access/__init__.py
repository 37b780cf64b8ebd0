"""Access control: who may send which request, by accounts of both generations of Apache RocketMQ."""
