"""What users declare: one module per kind, and the export of their CRDs."""
