"""What every room shares: errors, ids, clock, abort signals, request context, and the chunks of a run's log."""
