"""Mixture-of-experts layers for PyTorch, from parts; the only room that imports torch."""

try:
    import safetensors as _safetensors  # noqa: F401
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"gatewise.nn needs {error.name}: pip install 'gatewise[nn]'", name=error.name
    ) from error

from gatewise.nn.balancing import (
    Choice,
    GlobalBatchLoss,
    GShardLoss,
    ImportanceLoss,
    LoadLoss,
    SequenceLoss,
    SwitchLoss,
    ZLoss,
)
from gatewise.nn.bias_balancing import BiasBalancing, update_biases
from gatewise.nn.capacity import Capacity
from gatewise.nn.cartesian import CartesianLayer
from gatewise.nn.choice import Dense, GroupLimitedTopK, NullExperts, Threshold, TopK
from gatewise.nn.convert import from_mixture, FrozenExpert, to_mixture, TorchExpert
from gatewise.nn.expert_choice import ExpertChoiceRouter
from gatewise.nn.feed_forward import GatedSwiGLU, SwiGLU
from gatewise.nn.hierarchical import HierarchicalRouter
from gatewise.nn.input_weighted import InputWeighted
from gatewise.nn.layer import auxiliary_loss, MoELayer
from gatewise.nn.layer_history import LayerHistory
from gatewise.nn.parallel_experts import ParallelExperts, parallelize
from gatewise.nn.persistence import load, save
from gatewise.nn.presets import preset, PRESETS
from gatewise.nn.record import expert_losses, only_expert, record, Recording
from gatewise.nn.router_scores import LinearScores, QuadraticScores, Scores
from gatewise.nn.score_noise import JitteredScores, NoisyScores
from gatewise.nn.stacked_experts import ClampedSwiGLUExperts, Experts, MLPExperts, ModuleExperts, SwiGLUExperts
from gatewise.nn.thinning import RandomSecond
from gatewise.nn.token_router import AbstractRouter, Router, Routing
from gatewise.nn.transformers_blocks import from_transformers, to_transformers
from gatewise.nn.transport import entropic_transport, TransportScores
from gatewise.nn.weighting import Normalized, SigmoidEach, SoftmaxBefore
from gatewise.nn.xray import Trace, Xray, xray

__all__ = [
    "PRESETS",
    "AbstractRouter",
    "BiasBalancing",
    "Capacity",
    "CartesianLayer",
    "Choice",
    "ClampedSwiGLUExperts",
    "Dense",
    "ExpertChoiceRouter",
    "Experts",
    "FrozenExpert",
    "GShardLoss",
    "GatedSwiGLU",
    "GlobalBatchLoss",
    "GroupLimitedTopK",
    "HierarchicalRouter",
    "ImportanceLoss",
    "InputWeighted",
    "JitteredScores",
    "LayerHistory",
    "LinearScores",
    "LoadLoss",
    "MLPExperts",
    "MoELayer",
    "ModuleExperts",
    "NoisyScores",
    "Normalized",
    "NullExperts",
    "ParallelExperts",
    "QuadraticScores",
    "RandomSecond",
    "Recording",
    "Router",
    "Routing",
    "Scores",
    "SequenceLoss",
    "SigmoidEach",
    "SoftmaxBefore",
    "SwiGLU",
    "SwiGLUExperts",
    "SwitchLoss",
    "Threshold",
    "TopK",
    "TorchExpert",
    "Trace",
    "TransportScores",
    "Xray",
    "ZLoss",
    "auxiliary_loss",
    "entropic_transport",
    "expert_losses",
    "from_mixture",
    "from_transformers",
    "load",
    "only_expert",
    "parallelize",
    "preset",
    "record",
    "save",
    "to_mixture",
    "to_transformers",
    "update_biases",
    "xray",
]
