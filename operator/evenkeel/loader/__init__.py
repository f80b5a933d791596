"""The loader job: reads a revision from Kafka once and hands it to a node cache."""
