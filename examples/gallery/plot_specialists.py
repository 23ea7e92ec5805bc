"""
Specialists in a trained model
==============================

A mixture of small networks is trained on two functions that take turns. Did its experts specialise, or does the
router only seem to choose? The same test as for a pool of regressors answers, on rows that training has not seen.
Needs ``pip install 'gatewise[nn]'``.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch

from gatewise import geometry, nn

torch.manual_seed(0)
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (1500, 2)).astype(np.float32)
y = np.where(X[:, 0] > 0, np.sin(4 * X[:, 1]), 2 * X[:, 1] ** 2 - 1).astype(np.float32)


class Net(torch.nn.Module):
    """Inputs to eight numbers, a mixture of four small networks, and one number out."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(2, 8)
        router = nn.Router(nn.LinearScores(8, 4), nn.TopK(1), nn.SoftmaxBefore())
        self.mixture = nn.MoELayer(nn.SwiGLUExperts(4, d=8, hidden=16), router)
        self.outer = torch.nn.Linear(8, 1)

    def forward(self, x):
        return self.outer(self.mixture(self.inner(x)))[:, 0]


# %%
# A short training on the first thousand rows.

model, inputs, target = Net(), torch.from_numpy(X), torch.from_numpy(y)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
history = []
for _ in range(300):
    loss = ((model(inputs[:1000]) - target[:1000]) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())

# %%
# What would each expert have answered on the last 500 rows in the place of the one that the router chose?

with torch.no_grad():
    hidden = model.inner(inputs[1000:])
    routing = model.mixture.router(hidden)
    alone = []
    for m in range(4):
        indices = torch.full((500, 1), m)
        answer = model.mixture.experts(hidden, indices, routing.weights)
        alone.append(((model.outer(answer)[:, 0] - target[1000:]) ** 2).numpy())
losses = np.stack(alone, axis=1).astype(float)
leader = routing.indices[:, 0].numpy()
found = geometry.specialization(losses, leader)
print("experts with a shown specialization:", list(found.special))

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
left.semilogy(history)
left.set(xlabel="step", ylabel="squared error")
right.scatter(X[1000:, 0], X[1000:, 1], c=leader, s=8, cmap="viridis")
right.set(xlabel="$x_1$", ylabel="$x_2$", title="first expert of the router")
