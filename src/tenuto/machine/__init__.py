"""The loop as a pure state machine: state, records, commands and tables. No I/O, no clock, no ids of its own."""
