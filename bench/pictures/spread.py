"""Lines of medians, with bars from the least value of each place to the greatest."""

from __future__ import annotations

import statistics

# Lines of one picture stand side by side: the factor on a logarithmic axis between two of them.
APART = 1.06


def line(axes, values: dict, shift: float, colour: str, label: str) -> None:
    """One line: `values` has the samples of each place, `shift` counts lines from the middle one."""
    middles = [statistics.median(samples) for samples in values.values()]
    below = [middle - min(samples) for middle, samples in zip(middles, values.values())]
    above = [max(samples) - middle for middle, samples in zip(middles, values.values())]
    places = [place * APART**shift for place in values]
    axes.errorbar(places, middles, yerr=[below, above], fmt="o-", color=colour, ms=4, lw=1.2, capsize=2, label=label)


def lines(axes, series: dict, colours: dict, labels: dict) -> None:
    """A line for each of `series`, {name: {place: samples}}, in their order."""
    for number, (name, values) in enumerate(series.items()):
        line(axes, values, number - (len(series) - 1) / 2, colours[name], labels.get(name, name))
