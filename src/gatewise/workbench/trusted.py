"""What a model file may contain: a fixed list of types, whatever the file asks for."""

from collections.abc import Iterator
from typing import Any

import numpy as np

LOADERS = frozenset(
    "CachedNode DTypeNode DictNode FunctionNode JsonNode ListNode LossNode NdArrayNode ObjectNode PartialNode "
    "RandomGeneratorNode SliceNode TreeNode TupleNode TypeNode".split()
)
_PLAIN = "dict list tuple str int float bool slice NoneType".split()
_ARRAYS = "ndarray dtype bool bool_ float32 float64 int8 int32 int64 intp uint8 uint32 uint64 object_".split()
_GATEWISE = (
    "estimators.moe.MoERegressor estimators.out_of_fold.OutOfFold experts.column.ColumnExpert "
    "geometry.intervals.Interval routing.candidates.Candidate routing.candidates.FittedList "
    "routing.columns.LevelColumn routing.columns.NumberColumn routing.features.Forecast routing.features.Kernel "
    "routing.features.Linear routing.features.Quadratic routing.gate_path.Path routing.inputs.GateInputs "
    "routing.mixing.Mixing routing.regions.RegionRow routing.regions.RegionTable routing.settings.MoESettings "
    "routing.spread.Spread routing.verdict.Verdict"
).split()
_LOSSES = "HalfSquaredError AbsoluteError PinballLoss HalfPoissonLoss HalfGammaLoss".split()
_SKLEARN = [
    *(f"_loss.loss.{loss}" for loss in _LOSSES),
    *(f"_loss._loss.Cy{loss}" for loss in _LOSSES),
    *(f"_loss.link.{name}" for name in ("IdentityLink", "LogLink", "Interval")),
    *(f"metrics._dist_metrics.{name}Distance64" for name in ("Chebyshev", "Euclidean", "Manhattan", "Minkowski")),
    *(
        "compose._column_transformer.ColumnTransformer compose._target.TransformedTargetRegressor "
        "dummy.DummyRegressor ensemble._forest.ExtraTreesRegressor ensemble._forest.RandomForestRegressor "
        "ensemble._hist_gradient_boosting.binning._BinMapper "
        "ensemble._hist_gradient_boosting.gradient_boosting.HistGradientBoostingRegressor "
        "ensemble._hist_gradient_boosting.predictor.TreePredictor impute._base.MissingIndicator "
        "impute._base.SimpleImputer linear_model._base.LinearRegression "
        "linear_model._coordinate_descent.ElasticNet linear_model._coordinate_descent.Lasso "
        "linear_model._huber.HuberRegressor linear_model._ridge.Ridge linear_model._ridge.RidgeCV "
        "neighbors._ball_tree.BallTree neighbors._kd_tree.KDTree neighbors._regression.KNeighborsRegressor "
        "pipeline.Pipeline preprocessing._data.StandardScaler preprocessing._encoders.OneHotEncoder "
        "preprocessing._encoders.OrdinalEncoder preprocessing._function_transformer.FunctionTransformer "
        "svm._classes.SVR tree._classes.DecisionTreeRegressor tree._classes.ExtraTreeRegressor tree._tree.Tree "
        "utils.validation.check_array"
    ).split(),
]
TYPES = frozenset(
    [
        *(f"builtins.{name}" for name in _PLAIN),
        *(f"numpy.{name}" for name in _ARRAYS),
        "numpy.random._generator.Generator",
        "numpy.random._pcg64.PCG64",
        "functools.partial",  # of check_array alone: what it is applied to is on this list or the file is refused
        *(f"gatewise.{name}" for name in _GATEWISE),
        *(f"sklearn.{name}" for name in _SKLEARN),
    ]
)


def strangers(schema: Any) -> list[str]:
    """The types and ways of loading that a file's schema asks for and that are not on the list, sorted."""
    found = set()
    for node in _nodes(schema):
        loader = node["__loader__"]
        name = f"{node.get('__module__')}.{node.get('__class__')}"
        if loader not in LOADERS:
            found.add(f"{name} by {loader}")
        elif name not in TYPES:
            found.add(name)
    return sorted(found)


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Every entry of a schema that says how to load something; a stack, as a file may be nested deeply."""
    stack = [schema]
    while stack:
        entry = stack.pop()
        if isinstance(entry, dict):
            if "__loader__" in entry or "__class__" in entry:
                yield {"__loader__": "nothing", **entry}
            stack.extend(entry.values())
        elif isinstance(entry, list):
            stack.extend(entry)


def check_trees(experts: Any) -> None:
    """Whether all decision trees below these experts are whole: compiled code follows their links unchecked."""
    stack, seen = list(experts), set()
    while stack:
        one = stack.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, list | tuple):
            stack.extend(one)
        elif type(one).__name__ == "Tree":
            nodes = one.__getstate__()["nodes"]
            _check_links(nodes["left_child"], nodes["right_child"], nodes["left_child"] < 0)
            _check_range(nodes["feature"][nodes["left_child"] >= 0], one.n_features)
        elif type(one).__name__ == "TreePredictor":
            _check_links(one.nodes["left"], one.nodes["right"], one.nodes["is_leaf"] != 0)
            categories = one.nodes["bitset_idx"][one.nodes["is_categorical"] != 0]
            _check_range(categories, len(one.raw_left_cat_bitsets))
        elif hasattr(one, "__dict__"):
            stack.extend(vars(one).values())


def _check_links(left: Any, right: Any, leaf: Any) -> None:
    """Children come after their parent and exist: then a walk down the tree ends."""
    place = np.flatnonzero(~leaf)
    for child in (left[place].astype(np.int64), right[place].astype(np.int64)):
        if (child <= place).any() or (child >= len(left)).any():
            raise ValueError("a decision tree in the file is broken")


def _check_range(values: Any, size: int) -> None:
    numbers = values.astype(np.int64)
    if ((numbers < 0) | (numbers >= size)).any():
        raise ValueError("a decision tree in the file is broken")
