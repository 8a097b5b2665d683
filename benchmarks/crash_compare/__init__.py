"""Two paid tool calls, the process killed right after the second effect, resumed: which effects were seen."""
