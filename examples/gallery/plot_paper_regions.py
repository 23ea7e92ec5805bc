"""
The paper's quadratic design
============================

Three experts, and a truth that mixes them by a gate with curved borders. `RouterAggregator` weighs tens of
thousands of candidate gates by what they forecast, and averages them: no optimisation, no local optimum.
"""

import matplotlib.pyplot as plt
import numpy as np

import gatewise as gw
from gatewise.paper.designs import DESIGNS
from gatewise.paper.table1_gates import NETS

design = DESIGNS["quadratic"]
X, y = design.sample(400, np.random.default_rng(0))
gate = gw.QuadraticGate(3, intercept=False, cross=False)
net = gate.net(NETS["quadratic", "quadratic"].values)
router = gw.RouterAggregator(design.experts, gate, net, random_state=0).fit(X, y)
print(f"{net.size:,} candidates; effective number after the last row: {router.effective_candidates_:.1f}")

# %%
# Where each expert leads, and the distance to the truth at fresh points.

axis = np.linspace(-1, 1, 121)
grid = np.stack([part.ravel() for part in np.meshgrid(axis, axis)], axis=1)
leader = router.gate_weights(grid).argmax(axis=1).reshape(121, 121)
figure, axes = plt.subplots(figsize=(4, 3.6), layout="constrained")
axes.pcolormesh(axis, axis, leader, cmap="viridis", shading="nearest")
axes.set(xlabel="$x_1$", ylabel="$x_2$", title="leading expert, learned from 400 rows")

fresh, _ = design.sample(5000, np.random.default_rng(1))
truth = design.truth(fresh)
print("learned gate:", round(float(np.sqrt(np.mean((router.predict(fresh) - truth) ** 2))), 3))
for m, forecast in enumerate(gw.expert_matrix(design.experts, fresh).T, start=1):
    print(f"expert {m} alone:", round(float(np.sqrt(np.mean((forecast - truth) ** 2))), 3))
