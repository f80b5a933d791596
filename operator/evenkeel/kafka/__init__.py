"""The one place that talks to Kafka; exceptions of its clients end here and become ours."""
