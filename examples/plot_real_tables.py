"""
A raw table: from read_csv to intervals
=======================================

Real tables have categories, missing values, dates, skewed targets, and rows that belong together.
``TAGIRegressor`` takes them as they are. Only dates are refused: what they mean, only you know.

The table lists flats that were sold, and their prices. Flats of a street have something in common
that no column tells, and new flats are in other streets.

**What to see.** The less is known of a flat, the wider is its interval, and the larger are the
errors: a missing value or an unknown kind of flat is something that the network does not know, and
not an average that it takes for granted. In each fifth of the predicted price, about nine of ten
new prices are inside the 90 % interval.
"""

import textwrap
from io import StringIO

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import sktagi
from sktagi import TAGIRegressor
from sktagi.metrics import log_likelihood_scorer
from sktagi.plotting import CoverageByGroupDisplay

DISTRICTS = {"harbour": 0.3, "hill": 0.15, "mill": 0.0, "station": -0.2}
KINDS = {"flat": 0.0, "loft": 0.15, "maisonette": 0.1, "basement": -0.3}
RARE = ["houseboat", "lighthouse", "lighthouse"]
MISSING = {"built": 0.2, "energy": 0.3, "district": 0.1}


def make_csv(seed=0, n=600, first_street=0):
    """Flats that were sold from 2020 to 2024, as the text of a CSV file."""
    rng = np.random.default_rng(seed)
    of_flat = rng.integers(n // 10, size=n)
    district = rng.choice(list(DISTRICTS), size=n // 10)[of_flat]
    of_street = 0.1 * rng.normal(size=n // 10)[of_flat]
    kind = rng.choice(list(KINDS), size=n, p=[0.6, 0.15, 0.15, 0.1])
    size = np.exp(rng.normal(4.2, 0.4, size=n)).round()
    built = rng.integers(1900, 2020, size=n)
    energy = (300 - 1.8 * (built - 1900) + 30 * rng.normal(size=n)).round()  # kWh/m² a year
    day = rng.integers(5 * 365, size=n)
    log_price = (
        1.6 + 0.9 * np.log(size) + [DISTRICTS[d] for d in district] + [KINDS[k] for k in kind]
        - 0.003 * energy + 0.06 * day / 365 + of_street + 0.08 * rng.normal(size=n)
    )  # fmt: skip
    kind[: len(RARE)] = RARE
    frame = pd.DataFrame(
        {
            "street": [f"street {first_street + k}" for k in of_flat],
            "district": district,
            "kind": kind,
            "size": size,
            "built": built,
            "energy": energy,
            "sold": pd.Timestamp("2020-01-01") + pd.to_timedelta(day, unit="D"),
            "price": np.exp(log_price).round(1),  # in 1000
        }
    )
    for name, share in MISSING.items():
        frame[name] = frame[name].mask(rng.uniform(size=n) < share)
    return frame.to_csv(index=False)


def read(text):
    return pd.read_csv(StringIO(text), parse_dates=["sold"])


def features(frame):
    """All columns but the target and the groups, with the date as a number."""
    years = (frame["sold"] - pd.Timestamp("2020-01-01")).dt.days / 365.25
    return frame.drop(columns=["price", "street", "sold"]).assign(years=years)


def fit(frame):
    """Fit the network to all flats; each member holds out whole streets."""
    model = TAGIRegressor(target_transform="log", cv=GroupKFold(5), random_state=0)
    return model.fit(features(frame), frame["price"], groups=frame["street"])


def by_what_is_missing(dist, frame):
    """Relative std and relative error of flats, by the number of values that are missing."""
    missing = np.minimum(features(frame).isna().sum(axis=1), 2)
    error = (frame["price"] - dist.mean()) / dist.mean()
    groups = pd.DataFrame(
        {"std": np.square(dist.std() / dist.mean()), "error": np.square(error)}
    ).groupby(missing)
    return np.sqrt(groups.mean())


# %%
# The table, as it is read. ``energy`` is what a flat needs for heating; old houses need more.
flats = read(make_csv())
print(flats.head(5).to_string(index=False))

# %%
# ``parse_dates`` says that a column is a date; as text it would be a category. Fitting the table as
# it is fails because of it:
try:
    TAGIRegressor().fit(flats.drop(columns="price"), flats["price"])
except ValueError as error:
    print(textwrap.fill(str(error), 80))

# %%
# ``features`` turns the date into years, since prices rise. The street stays out: there are too few
# flats in each, and new flats are in new streets. But flats of one street are held out together
# (``cv=GroupKFold(5)`` and ``groups``), so that the intervals hold for new streets. Prices are
# skewed and positive: ``target_transform="log"``. That is all.
model = fit(flats)
print(textwrap.fill(" ".join(model.encoded_feature_names_), 80))

# %%
# Each level of a category has become an input, rare ones together (``kind_infrequent``); so has
# what says that a value is missing. New flats and their 90 % intervals, in the units of the prices.
# The first three are of rare kinds, of which the model has seen three altogether: it is not sure of
# them.
new_flats = read(make_csv(seed=1, n=1000, first_street=100))
dist = model.predict_dist(features(new_flats))
low, high = dist.interval(0.9)
shown = new_flats[["district", "kind", "size", "built", "energy", "price"]].head(8).copy()
shown["low"], shown["high"] = low[:8].round(), high[:8].round()
print(shown.to_string(index=False))

# %%
# One flat, of which less and less is known. Its energy can be guessed from the year of its house,
# its year from the energy. There was no windmill, and no flat without a size, among those that were
# learned.
known = pd.DataFrame(
    {"district": ["mill"], "kind": ["flat"], "size": [70.0], "built": [1930.0], "energy": [240.0],
     "years": [5.0]}
)  # fmt: skip
cases = {
    "all known": {},
    "no energy": {"energy": np.nan},
    "no energy, no year": {"energy": np.nan, "built": np.nan},
    "kind: windmill": {"kind": "windmill"},
    "no district": {"district": None},
    "no size": {"size": np.nan},
}
one_flat = pd.concat([known.assign(**values) for values in cases.values()], ignore_index=True)
of_one = model.predict_dist(one_flat)
fig, ax = plt.subplots(figsize=(7, 3.2), constrained_layout=True)
place = np.arange(len(cases))[::-1]
for coverage, width in ((0.9, 3), (0.5, 8)):
    left, right = of_one.interval(coverage)
    ax.hlines(
        place, left, right, color="tab:blue", alpha=0.5, lw=width, label=f"{100 * coverage:.0f} %"
    )
ax.plot(of_one.median(), place, "o", color="black", ms=5, label="median")
ax.set_yticks(place, list(cases))
ax.set(xlabel="price of one flat (in 1000)", ylabel="what is known of it")
ax.legend(title="interval", frameon=False, fontsize=9)
plt.show()

# %%
# Are they right? On the left, flats with more missing values have a larger standard deviation, and
# larger errors. Of those with two or more, there were only about sixty to learn from: how much
# larger is known less well. On the right, the coverage of the 90 % interval by fifth of the
# predicted price. Grey bars are what chance alone explains if rows are independent, which flats of
# one street are not quite.
fig, axes = plt.subplots(1, 2, figsize=(9.5, 3.9), constrained_layout=True)
relative = by_what_is_missing(dist, new_flats)
for k, (name, label) in enumerate([("std", "predicted std"), ("error", "error (rms)")]):
    axes[0].bar(relative.index + 0.38 * (k - 0.5), relative[name], width=0.36, label=label)
axes[0].set_xticks([0, 1, 2], ["none", "one", "two or more"])
axes[0].set(xlabel="missing values of the flat", ylabel="share of the predicted price")
axes[0].yaxis.set_major_formatter(lambda share, _: f"{100 * share:.0f} %")
axes[0].legend(frameon=False, fontsize=9, loc="upper left")
CoverageByGroupDisplay.from_predictions(
    new_flats["price"], dist=dist, name="TAGIRegressor", ax=axes[1]
)
plt.show()

# %%
# The same in a pipeline, for those who prefer to encode and to impute. ``sktagi.predict_dist``
# gives the whole distribution of a pipeline, or of a search, and the scorers take them, too. With
# an indicator for what is missing, the network learns how unsure it makes. But what was never
# missing before is filled in as if it were known: see the flat without a size.
encoder = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=3)
pipe = make_pipeline(
    make_column_transformer(
        (encoder, ["district", "kind"]), remainder=SimpleImputer(add_indicator=True)
    ),
    TAGIRegressor(target_transform="log", cv=GroupKFold(5), random_state=0),
)
pipe.fit(features(flats), flats["price"], tagiregressor__groups=flats["street"])
for name, one in (("frame", model), ("pipeline", pipe)):
    left, right = sktagi.predict_dist(one, one_flat).interval(0.9)
    print(f"{name:8s}  all known: {left[0]:.0f} to {right[0]:.0f}, ", end="")
    print(f"no size: {left[-1]:.0f} to {right[-1]:.0f}")

# %%
# Log-likelihoods of new streets (greater is better), with fewer epochs and members than by default:
quick = {"max_iter": 20, "n_members": 2}
pipe[-1].set_params(**quick)
candidates = {
    "frame": (
        TAGIRegressor(target_transform="log", cv=GroupKFold(5), random_state=0, **quick),
        "groups",
    ),
    "pipeline": (pipe, "tagiregressor__groups"),
}
for name, (candidate, groups) in candidates.items():
    scores = cross_val_score(
        candidate, features(flats), flats["price"], groups=flats["street"], cv=GroupKFold(3),
        scoring=log_likelihood_scorer, params={groups: flats["street"]},
    )  # fmt: skip
    print(f"{name:8s} {scores.mean():.2f}")
