"""Compares two BOLT fdata profiles: edge overlap and the error of branch probabilities."""
import collections


def load(path):
    """(function, from offset) -> {(function, to offset): count}; both ends inside the binary."""
    edges = collections.defaultdict(collections.Counter)
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            words = line.split()
            if len(words) != 8 or words[0] not in "1" or words[3] not in "1":
                continue
            source = (words[1], int(words[2], 16))
            edges[source][(words[4], int(words[5], 16))] += int(words[7])
    return edges


def flat(edges, keep=lambda source, target: True):
    return {(s, t): n for s, targets in edges.items() for t, n in targets.items() if n and keep(s, t)}


def inside(source, target):
    """Edges within one function; a call's entry edge and a return's edge are between functions."""
    return source[0] == target[0] and target[1] != 0


def overlap(a, b):
    """Degree of overlap of two weighted edge sets: 1 where the shares are the same."""
    total_a, total_b = sum(a.values()) or 1, sum(b.values()) or 1
    return sum(min(n / total_a, b.get(edge, 0) / total_b) for edge, n in a.items())


def overlap_within(truth, other):
    """Mean overlap of the functions, each weighted by its share in the truth."""
    by_function = collections.defaultdict(lambda: ({}, {}))
    for index, profile in enumerate((truth, other)):
        for edge, n in profile.items():
            by_function[edge[0][0]][index][edge] = n
    total = sum(sum(t.values()) for t, _ in by_function.values()) or 1
    return sum(sum(t.values()) / total * overlap(t, o) for t, o in by_function.values() if t)


def probability_error(truth, other):
    """Mean absolute error of the first target's share at two-way branches, weighted by the truth's counts."""
    weight = error = missing = 0
    truth_by, other_by = collections.defaultdict(dict), collections.defaultdict(dict)
    for (source, target), n in truth.items():
        truth_by[source][target] = n
    for (source, target), n in other.items():
        other_by[source][target] = n
    for source, targets in truth_by.items():
        if len(targets) != 2:
            continue
        first = min(targets)
        count = sum(targets.values())
        seen = sum(other_by[source].get(t, 0) for t in targets)
        if seen == 0:
            missing += count
            continue
        weight += count
        error += count * abs(targets[first] / count - other_by[source].get(first, 0) / seen)
    return error / (weight or 1), missing / ((weight + missing) or 1)
