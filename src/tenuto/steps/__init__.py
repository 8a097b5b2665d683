"""What a driver executes: one module per command of the machine."""
