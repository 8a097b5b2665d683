"""What tenuto costs, next to a hand-written floor and to others: `python -m benchmarks`. See docs/performance.md."""
