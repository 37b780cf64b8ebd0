"""A demonstration: transactional producers on a gateway, their messages in Parquet, a report of their transactions."""
