"""What a conversation is made of: turns (what a model reads) and stored messages (format 2, what is kept)."""
