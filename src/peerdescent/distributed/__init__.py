"""The processes of a run: placement, exchange, process group, rendezvous, heartbeat, launcher."""
