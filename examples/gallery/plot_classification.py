"""
A pool of classifiers
=====================

For some customers every column counts a little, for the others one column counts much, and not in one direction. A
logistic regression knows the first kind, a tree the second. The gate learns where each is right, by the log loss of
rows that were held out.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

import gatewise as gw

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (1000, 6))
chance = np.where(X[:, 0] < 0, 1 / (1 + np.exp(-3 * X[:, 1:].sum(axis=1))), np.sin(6 * X[:, 1]) > 0)
y = np.where(rng.uniform(size=1000) < 0.05 + 0.9 * chance, "buys", "leaves")

# %%
# One fit, and what it says: whether a gate pays, the scores on held-out rows, and the regions in words.

tree = DecisionTreeClassifier(max_depth=6, min_samples_leaf=10, random_state=0)
experts = [("logistic", LogisticRegression()), ("tree", tree)]
model = gw.MoEClassifier(experts, gates=["linear", "tree"], random_state=0).fit(X, y)
print(model.summary())

# %%
# The weight of the tree by the first two columns, where the others are zero, and by the first column alone.

axis = np.linspace(-1, 1, 61)
grid = np.zeros((61 * 61, 6))
grid[:, :2] = np.stack([part.ravel() for part in np.meshgrid(axis, axis)], axis=1)
figure, (left, right) = plt.subplots(1, 2, figsize=(7.5, 3.2), layout="constrained", width_ratios=(1.2, 1))
weight = model.gate_weights(grid)[:, 1].reshape(61, 61)
mesh = left.pcolormesh(axis, axis, weight, vmin=0, vmax=1, cmap="cividis", rasterized=True)
figure.colorbar(mesh, ax=left, label="weight of the tree")
left.set(xlabel="$x_1$", ylabel="$x_2$", aspect="equal")
bins = np.clip((X[:, 0] + 1) // 0.2, 0, 9).astype(int)
own = model.gate_weights(X)
for m, (name, _) in enumerate(experts):
    right.plot(np.arange(-0.9, 1, 0.2), [own[bins == b, m].mean() for b in range(10)], "o-", label=name)
right.set(xlabel="$x_1$", ylabel="mean weight", ylim=(0, 1))
right.legend(frameon=False)
