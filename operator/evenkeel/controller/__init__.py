"""The operator: watches, one reconcile loop, and a pure planner per kind."""
