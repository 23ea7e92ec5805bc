"""
House prices
============

Outside of the centre a price is a sum of simple terms; in the centre, houses of some sizes and ages are sought after.
A line knows the rule of the outskirts, neighbours know that of the centre; the gate learns where each is right.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import RidgeCV
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import gatewise as gw

# %%
# A made-up town: price in thousands, size in square metres, distance from the centre in km, age in years.

rng = np.random.default_rng(0)
n = 900
houses = pd.DataFrame(
    {
        "size": rng.uniform(40, 200, n),
        "centre_km": rng.uniform(0, 20, n),
        "age": rng.integers(0, 120, n).astype(float),
    }
)
outside = 80 + 2.0 * houses["size"] - 0.5 * houses["age"]
inside = outside + 120 * np.sin(houses["size"] / 25) + 120 * np.cos(houses["age"] / 20)
price = np.where(houses["centre_km"] > 6, outside, inside) + 15 * rng.normal(size=n)

# %%
# Two experts and the gate between them, fitted to 700 houses.

experts = [
    ("line", make_pipeline(StandardScaler(), RidgeCV())),
    ("neighbours", make_pipeline(StandardScaler(), KNeighborsRegressor(6))),
]
model = gw.MoERegressor(experts, gates=["linear", "tree"], random_state=0).fit(houses[:700], price[:700])
print(model.summary())

# %%
# What the gate learned: the mean weight of every expert by the distance from the centre.

weights = model.gate_weights(houses)
bins = np.clip(houses["centre_km"] // 2, 0, 9).astype(int)
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
for m, (name, _) in enumerate(experts):
    axes.plot(2 * np.arange(10) + 1, [weights[bins == b, m].mean() for b in range(10)], "o-", label=name)
axes.set(xlabel="distance from the centre, km", ylabel="mean weight", ylim=(0, 1))
axes.legend(frameon=False)

# %%
# The error on the two hundred houses that were kept back.

new = slice(700, None)
columns = model.transform(houses[new])
for m, (name, _) in enumerate(experts):
    print(f"{name:>12}: {np.sqrt(np.mean((columns[:, m] - price[new]) ** 2)):.1f}")
print(f"{'Gatewise':>12}: {np.sqrt(np.mean((model.predict(houses[new]) - price[new]) ** 2)):.1f}")
