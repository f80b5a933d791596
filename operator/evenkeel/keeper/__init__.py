"""The hand of one Kafka cluster: measures, plans, publishes routes, keeps topics, follows ingests."""
