"""Protocols of kubelet as protobuf: the .proto files are the source, `scripts/protos` makes the rest."""
