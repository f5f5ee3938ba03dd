"""The tables that bench_train prints."""
import dataclasses
import statistics

from train_cases import BYTES_PER_PARAMETER


def print_table(rows):
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        print("  ".join(cell.ljust(width) if not i else cell.rjust(width) for i, (cell, width) in enumerate(zip(row, widths))))
    print()


def against(rate, peer):
    return ["-", "-"] if peer is None else [f"{peer[0]:.0f}", f"{rate / peer[0]:.1f}"]


def print_results(results):
    rows = [["case", "threads", "step s", "tokens/s", "limit", "of limit", "as measured", "peak/planned", "peer", "times", "peer alone", "times"]]
    for case, row in results.items():
        rate = row["tokens_per_second"]
        rows.append([str(case), str(row["threads"]), f"{row['step_seconds']:.3f}", f"{rate:.0f}", f"{case.tokens / row['limit']['step_seconds']:.0f}",
                     f"{row['share_of_limit']:.1%}", f"{row['share_as_measured']:.1%}", f"{row['peak_to_planned']:.3f}",
                     *against(rate, row["best_peer"]), *against(rate, row["best_peer_alone"])])
    print_table(rows)


def print_gains(results):
    """What routing gains over gathering, where both were measured."""
    rates = {str(case): row["tokens_per_second"] for case, row in results.items()}
    for case in results:
        gathered = str(case).replace("-routed", "-gathered")
        if gathered != str(case) and gathered in rates:
            print(f"{case}: {rates[str(case)] / rates[gathered]:.2f} times the tokens/s of gathered\n")


def print_families(results):
    """Shares of the limit beside that of Qwen3-MoE's 173 M, repeat by repeat, where both were measured."""
    shares = {str(case): row["shares_as_measured"] for case, row in results.items()}
    rows = [["case", "of limit", "of 32M's share", "least", "most"]]
    for case in results:
        base = shares.get(str(dataclasses.replace(case, model="32M")))
        if base is None or case.model in ("32M", "100M"):
            continue
        ratios = [own / other for own, other in zip(shares[str(case)], base, strict=True)]
        rows.append([str(case), f"{statistics.median(shares[str(case)]):.1%}", f"{statistics.median(ratios):.2f}", f"{min(ratios):.2f}", f"{max(ratios):.2f}"])
    if len(rows) > 1:
        print_table(rows)


def print_phases(results):
    phases = {case: {name.removeprefix("phase_seconds/"): value for name, value in row["medians"].items()
                     if name.startswith("phase_seconds/")} for case, row in results.items()}
    names = list(next(iter(phases.values())))
    print_table([["median s of", *names]] + [[str(case), *(f"{row[name]:.3f}" for name in names)] for case, row in phases.items()])


def print_limits(results, rates):
    """The terms, once for each shape; `rates` by level."""
    for level, of_level in rates.items():
        print(f"limits{level and ' at ' + level}: products at {of_level['flop_per_second'] / 1e12:.3f} TFLOP/s and memory at"
              f" {of_level['bytes_per_second'] / 1e9:.1f} GB/s with {of_level['threads']} threads")
    limits = {f"{case.model}-{case.length}-{case.ranks}" + (case.isa and f"@{case.isa}"): row["limit"] for case, row in results.items()}
    terms = list(next(iter(limits.values()))["flop"])
    rows = [["GFLOP of", *terms, "together", "s", f"GB of {BYTES_PER_PARAMETER} B/parameter", "s"]]
    for shape, limit in limits.items():
        flop, seconds = limit["flop"], limit["seconds"]
        rows.append([shape, *(f"{flop[name] / 1e9:.1f}" for name in terms), f"{sum(flop.values()) / 1e9:.1f}", f"{seconds['products']:.3f}",
                     f"{limit['memory_bytes'] / 1e9:.2f}", f"{seconds['memory']:.3f}"])
    print_table(rows)
