"""
A strong pool
=============

Boosted trees of several packages are often close to each other. Then the question is whether anything is left to
win; the verdict says. Packages that are not installed are left out.
"""

from importlib.util import find_spec

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV

import gatewise as gw

X, y = load_diabetes(return_X_y=True, as_frame=True)
experts = [
    ("ridge", RidgeCV(np.logspace(-3, 3, 13))),
    ("extra trees", ExtraTreesRegressor(100, min_samples_leaf=3, random_state=0)),
    ("boosting", HistGradientBoostingRegressor(max_iter=60, learning_rate=0.05, random_state=0)),
]
if find_spec("lightgbm"):
    from lightgbm import LGBMRegressor

    experts.append(("lightgbm", LGBMRegressor(n_estimators=60, learning_rate=0.05, verbose=-1, n_jobs=1)))

# %%
# One fit, and what it says.

model = gw.MoERegressor(experts, gates=["linear", "forecast"], random_state=0).fit(X, y)
print(model.summary())

# %%
# The held-out errors of the experts, of the best fixed weights and of the gate, from the folds of the fit.

held = model.out_of_fold_
names = [*(name for name, _ in experts), "convex stack", "Gatewise"]
errors = np.sqrt(
    [
        *((held.y[:, None] - held.F) ** 2).mean(axis=0),
        np.mean((held.y - held.stack) ** 2),
        np.mean((held.y - held.forecasts) ** 2),
    ]
)
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.barh(names[::-1], errors[::-1], color=["#D55E00", "#0072B2", *["#999999"] * len(experts)])
axes.set(xlabel="held-out root mean squared error", xlim=(0.95 * errors.min(), None))
