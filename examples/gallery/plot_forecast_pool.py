"""
A pool of forecasts in time order
=================================

Three services forecast a temperature. Which is best depends on the place, and one of them gets worse in the middle
of the year. The gate looks at the place; the shares of its candidates follow the errors.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import TimeSeriesSplit

import gatewise as gw
from gatewise.app.models.demo_data import make_table, TARGET
from gatewise.experts import ColumnExpert

# %%
# The demonstration's table, in the order of its rows. From row 700 on the coastal service has a bias of two degrees.

table = make_table(1000, seed=1)
table.loc[700:, "forecast_coastal"] += 2.0
X, y = table.drop(columns=[TARGET, "ground"]).fillna(6.0), table[TARGET].to_numpy()
services = [name for name in X.columns if name.startswith("forecast_")]
experts = [(name.removeprefix("forecast_"), ColumnExpert(name)) for name in services]

# %%
# Fitted to the first 600 rows, where every fold is judged on later rows only; then the model goes on by ten rows at
# a time, and predicts each before its response is seen.

model = gw.MoERegressor(experts, gates=["linear", "tree"], cv=TimeSeriesSplit(4), random_state=0).fit(
    X[:600], y[:600]
)
still = model.predict(X[600:])
for start in range(600, 1000, 10):
    model.partial_fit(X[start : start + 10], y[start : start + 10])

# %%
# Running mean absolute errors over fifty rows.


def running(forecast):
    return np.convolve(np.abs(forecast - y[600:]), np.ones(50) / 50, mode="valid")


figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.plot(np.arange(649, 1000), running(model.online_predictions_), label="Gatewise, going on")
axes.plot(np.arange(649, 1000), running(still), label="Gatewise as fitted")
for name in services:
    axes.plot(
        np.arange(649, 1000), running(X[name].to_numpy()[600:]), alpha=0.4, label=name.removeprefix("forecast_")
    )
axes.set(xlabel="row", ylabel="mean absolute error, last 50 rows")
axes.legend(frameon=False, fontsize=8)
