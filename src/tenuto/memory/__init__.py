"""What an agent remembers: threads and their messages, working memory, titles."""
