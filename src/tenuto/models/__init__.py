"""How tenuto talks to models: the port, the transport, one renderer, one delta assembler, one file per dialect."""
