"""How sure a median is: what benches print beside it."""

import random


def interval(values, draws=2000):
    """Median, and its 95 % bootstrap interval."""
    chooser = random.Random(1)
    medians = sorted(sorted(chooser.choices(values, k=len(values)))[len(values) // 2] for _ in range(draws))
    return sorted(values)[len(values) // 2], medians[int(draws * 0.025)], medians[int(draws * 0.975)]
