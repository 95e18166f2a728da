"""Every number in a report of `brink record --json`, by its name."""


def numbers(node):
    values = {}
    if isinstance(node, dict):
        for key, value in node.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                values[key] = value
            values.update(numbers(value))
    elif isinstance(node, list):
        for item in node:
            values.update(numbers(item))
    return values
