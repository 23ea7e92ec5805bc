"""
Which language model for which question
=======================================

Three models answer questions. The large one is best in general, a tuned one is better at mathematics and cheaper, a
small one is nearly as good where questions are short. The table is made up; yours has one row for each question
and a column of scores for each model.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import gatewise as gw

rng = np.random.default_rng(0)
n = 900
field, words = rng.choice(["law", "mathematics", "music"], n), rng.integers(5, 200, n)
questions = pd.DataFrame({"field": field, "words": words})
large = np.full(n, 0.75)
tuned = np.where(field == "mathematics", 0.85, 0.45)
small = np.where(words < 60, 0.70, 0.30)
chance = np.column_stack([large, tuned, small])
scores = pd.DataFrame(rng.uniform(size=(n, 3)) < chance, columns=["large", "tuned", "small"]).astype(float)
costs = [10.0, 4.0, 1.0]  # of one call

# %%
# What to call for which question, and whether that beats one model for everything.

router = gw.ScoreRouter(random_state=0).fit(questions, scores, costs)
print(router.summary())

# %%
# The mean score of held-out questions against the mean cost of a call, with 90 % intervals, and each model alone.

frontier = router.frontier()
cost = [point.cost.value for point in frontier.points]
score = np.array([[point.score.value, point.score.low, point.score.high] for point in frontier.points])
figure, axes = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
axes.plot(cost, score[:, 0], marker=".", label="routed, one point a price")
axes.fill_between(cost, score[:, 1], score[:, 2], alpha=0.2)
axes.plot(costs, scores.mean(), "s", color="0.3", label="one model for everything")
for name, place, height in zip(scores.columns, costs, scores.mean(), strict=True):
    axes.annotate(name, (place, height), textcoords="offset points", xytext=(0, -14), fontsize=8, ha="center")
axes.set(xlabel="mean cost of a question", ylabel="mean score")
axes.legend(frameon=False, fontsize=8, loc="lower right")
