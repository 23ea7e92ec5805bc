"""Do the experts of a layer become specialists while it is trained? The test of specialization, stage by stage."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from gatewise.geometry.coadaptation import HistoryStep, SpecializationHistory
from gatewise.nn.layer import MoELayer
from gatewise.nn.record import expert_losses, record


class LayerHistory:
    """The history of specialization of a layer's experts: call `add` between the epochs of a training loop.

    ``losses()`` runs the model that holds the layer on rows that it is not trained on and returns one loss a token,
    (n,). It is called once for the router's choice and once for each expert, with the layer in evaluation mode; the
    rest of the model should be in evaluation mode, too.

    >>> import torch
    >>> from gatewise.nn import preset
    >>> _ = torch.manual_seed(0)
    >>> layer, x = preset("mixtral", d=8, hidden=4), torch.randn(200, 8)
    >>> history = LayerHistory(layer, lambda: layer(x).square().sum(dim=1))
    >>> history.add().load.shape, len(history.steps)
    ((8,), 1)
    """

    def __init__(self, layer: MoELayer, losses: Callable[[], Tensor], *, alpha: float = 0.05, seed: int = 0) -> None:
        self.layer, self.losses = layer, losses
        self._history = SpecializationHistory(alpha, seed)

    @property
    def steps(self) -> list[HistoryStep]:
        """The stages so far."""
        return self._history.steps

    def add(self) -> HistoryStep:
        """Test the experts as they are now."""
        training = self.layer.training
        self.layer.eval()
        try:
            with record(self.layer) as recording:
                self.losses()
            table = expert_losses(self.layer, self.losses)
        finally:
            self.layer.train(training)
        return self._history.add(table, recording.shares)

    def table(self) -> list[dict[str, Any]]:
        """The stages as plain values."""
        return self._history.table()
