"""Recording a step: its equation, how many messages it sends, and when they leave."""
