"""Settings that are independent of each other, drawn so that every pair of their values comes up at least once.

Faults that show only where three settings meet are rare; those where two do are not, and a product of all settings is many times as long.
"""
import itertools


def pairs_of(row):
    """Each two settings of a row with their values."""
    return set(itertools.combinations(sorted(row.items()), 2))


def complete(row, factors, missing, is_allowed):
    """`row` with a value for each setting that it lacks: the allowed values that bring most of the missing pairs, the first of equals."""
    best, best_count = None, -1
    names = [name for name in factors if name not in row]
    for values in itertools.product(*(factors[name] for name in names)):
        candidate = row | dict(zip(names, values))
        count = len(pairs_of(candidate) & missing) if is_allowed(candidate) else -1
        if count > best_count:
            best, best_count = candidate, count
    return best


def draw(factors, rows=(), is_allowed=lambda row: True):
    """Rows, a value of each of `factors` ({setting: values}) in each: `rows` first, with what they leave open chosen, and as many more as it
    takes for every pair of values that stands in some allowed row. `is_allowed` may be asked of whole rows alone. The same for the same
    arguments."""
    missing = {pair for values in itertools.product(*factors.values()) for row in [dict(zip(factors, values))] if is_allowed(row)
               for pair in pairs_of(row)}
    drawn = []
    for row in rows:
        drawn.append(complete(row, factors, missing, is_allowed))
        missing -= pairs_of(drawn[-1])
    while missing:
        drawn.append(complete(dict(min(missing, key=repr)), factors, missing, is_allowed))
        missing -= pairs_of(drawn[-1])
    return drawn
