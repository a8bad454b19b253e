"""Steps, not tasks: optimizer, schedule, loop, checkpoint, metrics. Nothing here knows what is being learned."""
