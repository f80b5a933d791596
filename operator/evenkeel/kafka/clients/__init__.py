"""Clients of Kafka's data path. confluent-kafka is imported only here and in the router."""
