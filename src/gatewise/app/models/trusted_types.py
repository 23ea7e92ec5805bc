"""Trusted types: all that a model file may contain, whatever the file asks for.

A skops file names the types of its objects. A file that names a type that is not on this list is refused. Gatewise's
own classes are listed as objects, so that the list follows them when they move to another module.
"""

from gatewise import losses
from gatewise.aggregation.fixed_share import SwitchingState
from gatewise.app.models.filled_columns import FilledColumns
from gatewise.app.models.gate_names import gate_classes
from gatewise.estimators import MoEClassifier, MoERegressor, ScoreRouter
from gatewise.experts import ColumnExpert
from gatewise.experts.class_expert import ClassExpert
from gatewise.experts.decisions import GivenDecisions, SigmoidClassifier
from gatewise.experts.pool import Pool
from gatewise.gates import inputs
from gatewise.geometry import Alignment, ExpertReport, Interval, Specialization
from gatewise.geometry.coadaptation import HistoryStep
from gatewise.kernels import Trees
from gatewise.router import (
    candidates,
    class_rows,
    class_scores,
    class_stacks,
    fitted_router,
    learning,
    members,
    settings,
    training,
    tree_members,
    verdict,
)
from gatewise.scores import (
    bandit,
    cost_model,
    fitted_routes,
    leaf_members,
    local_members,
    logistic_members,
    price_weights,
    queries,
    ridge_members,
    routability,
    route_regions,
    route_verdict,
    score_list,
    text_columns,
)
from gatewise.solvers import softmax_path

# How skops may load an object: none of these runs a function that a file names. `bound` says which loader may make
# which type, as a loader that calls a type with the file's arguments must not be given any other.
LOADERS = frozenset(
    [
        "CachedNode",
        "DTypeNode",
        "DictNode",
        "FunctionNode",
        "JsonNode",
        "ListNode",
        "LossNode",
        "NdArrayNode",
        "ObjectNode",
        "PartialNode",
        "RandomGeneratorNode",
        "SliceNode",
        "TreeNode",
        "TupleNode",
        "TypeNode",
    ]
)
_PLAIN = ["dict", "list", "tuple", "str", "int", "float", "bool", "slice", "NoneType"]
_ARRAYS = [
    "ndarray",
    "dtype",
    "bool",
    "bool_",
    "float32",
    "float64",
    "int8",
    "int32",
    "int64",
    "intp",
    "uint8",
    "uint32",
    "uint64",
    "object_",
]
_GATEWISE: tuple[type, ...] = (
    MoEClassifier,
    MoERegressor,
    ClassExpert,
    ColumnExpert,
    FilledColumns,
    GivenDecisions,
    Pool,
    SigmoidClassifier,
    inputs.GateInputs,
    inputs.LevelColumn,
    inputs.NumberColumn,
    Alignment,
    ExpertReport,
    HistoryStep,
    Interval,
    Specialization,
    candidates.Candidate,
    class_rows.ClassOutOfFold,
    class_rows.ProbabilityFloor,
    class_scores.ClassScores,
    class_stacks.ClassStacks,
    members.FittedList,
    fitted_router.ForecastGuard,
    members.CommonFit,
    members.ExpectedErrors,
    members.PlainMembers,
    members.SoftmaxMembers,
    tree_members.ProductMembers,
    tree_members.SharedLearners,
    tree_members.TreeGates,
    Trees,
    SwitchingState,
    verdict.RegionRow,
    verdict.RegionTable,
    losses.DoubleExponential,
    losses.Gaussian,
    losses.StudentT,
    fitted_router.FittedRouter,
    fitted_router.OutOfFold,
    fitted_router.RowView,
    fitted_router.PredictionScale,
    learning.Mixing,
    settings.MoESettings,
    softmax_path.GatePath,
    training.TrainingStage,
    verdict.Verdict,
    ScoreRouter,
    bandit.OnlineState,
    cost_model.CostModel,
    fitted_routes.FittedRoutes,
    fitted_routes.HeldOutDecisions,
    local_members.CategoryMember,
    local_members.NeighbourMember,
    leaf_members.TreeColumns,
    leaf_members.TreeMember,
    logistic_members.LogisticFit,
    logistic_members.LogisticMember,
    price_weights.PriceWeights,
    queries.QueryReader,
    ridge_members.KernelBasis,
    ridge_members.LinearMember,
    ridge_members.RidgeFit,
    routability.Routability,
    route_regions.CategoryRow,
    route_regions.RouteRegion,
    route_regions.RouteRegionTable,
    route_verdict.RouteVerdict,
    score_list.FittedScores,
    text_columns.TextColumn,
)
_LOSSES = [
    "HalfSquaredError",
    "AbsoluteError",
    "PinballLoss",
    "HalfPoissonLoss",
    "HalfGammaLoss",
    "HalfBinomialLoss",
    "HalfMultinomialLoss",
]
_SKLEARN = [
    *(f"_loss.loss.{loss}" for loss in _LOSSES),
    *(f"_loss._loss.Cy{loss}" for loss in _LOSSES),
    *(f"_loss.link.{name}" for name in ("IdentityLink", "LogLink", "LogitLink", "MultinomialLogit", "Interval")),
    *(f"metrics._dist_metrics.{name}Distance64" for name in ("Chebyshev", "Euclidean", "Manhattan", "Minkowski")),
    *[
        "calibration.CalibratedClassifierCV",
        "calibration._CalibratedClassifier",
        "calibration._SigmoidCalibration",
        "compose._column_transformer.ColumnTransformer",
        "compose._target.TransformedTargetRegressor",
        "dummy.DummyClassifier",
        "dummy.DummyRegressor",
        "ensemble._forest.ExtraTreesClassifier",
        "ensemble._forest.ExtraTreesRegressor",
        "ensemble._forest.RandomForestClassifier",
        "ensemble._forest.RandomForestRegressor",
        "ensemble._hist_gradient_boosting.binning._BinMapper",
        "ensemble._hist_gradient_boosting.gradient_boosting.HistGradientBoostingClassifier",
        "ensemble._hist_gradient_boosting.gradient_boosting.HistGradientBoostingRegressor",
        "ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "impute._base.MissingIndicator",
        "impute._base.SimpleImputer",
        "linear_model._base.LinearRegression",
        "linear_model._coordinate_descent.ElasticNet",
        "linear_model._coordinate_descent.Lasso",
        "linear_model._huber.HuberRegressor",
        "linear_model._logistic.LogisticRegression",
        "linear_model._ridge.Ridge",
        "linear_model._ridge.RidgeClassifier",
        "linear_model._ridge.RidgeCV",
        "model_selection._split.StratifiedKFold",
        "naive_bayes.GaussianNB",
        "neighbors._ball_tree.BallTree",
        "neighbors._kd_tree.KDTree",
        "neighbors._classification.KNeighborsClassifier",
        "neighbors._regression.KNeighborsRegressor",
        "pipeline.Pipeline",
        "preprocessing._data.StandardScaler",
        "preprocessing._encoders.OneHotEncoder",
        "preprocessing._encoders.OrdinalEncoder",
        "preprocessing._function_transformer.FunctionTransformer",
        "preprocessing._label.LabelBinarizer",
        "preprocessing._label.LabelEncoder",
        "svm._classes.LinearSVC",
        "svm._classes.SVC",
        "svm._classes.SVR",
        "tree._classes.DecisionTreeClassifier",
        "tree._classes.DecisionTreeRegressor",
        "tree._classes.ExtraTreeClassifier",
        "tree._classes.ExtraTreeRegressor",
        "tree._tree.Tree",
        "utils.validation.check_array",
    ],
]
# What never changes while the program runs; `trusted_types` adds the gates.
_FIXED = frozenset(
    [
        *(f"builtins.{name}" for name in _PLAIN),
        *(f"numpy.{name}" for name in _ARRAYS),
        "numpy.random._generator.Generator",
        "numpy.random._pcg64.PCG64",
        "functools.partial",  # of check_array alone: what it is applied to is on this list or the file is refused
        *(f"sklearn.{name}" for name in _SKLEARN),
    ]
)


_BOUND = {
    "DTypeNode": frozenset(["numpy.dtype"]),
    "DictNode": frozenset(["builtins.dict"]),
    "FunctionNode": frozenset(["sklearn.utils.validation.check_array"]),
    "JsonNode": frozenset(f"builtins.{name}" for name in ("str", "int", "float", "bool", "NoneType")),
    "ListNode": frozenset(["builtins.list"]),
    "LossNode": frozenset(f"sklearn._loss._loss.Cy{loss}" for loss in _LOSSES),
    "NdArrayNode": frozenset(f"numpy.{name}" for name in _ARRAYS if name != "dtype"),
    "PartialNode": frozenset(["functools.partial"]),
    "RandomGeneratorNode": frozenset(["numpy.random._generator.Generator"]),
    "SliceNode": frozenset(["builtins.slice"]),
    "TreeNode": frozenset(["sklearn.tree._tree.Tree"]),
    "TupleNode": frozenset(
        ["builtins.tuple", *(f"{one.__module__}.{one.__qualname__}" for one in _GATEWISE if issubclass(one, tuple))]
    ),
    "TypeNode": frozenset([*(f"builtins.{name}" for name in _PLAIN), *(f"numpy.{name}" for name in _ARRAYS)]),
}
# Boosted trees of other packages. Their own code reads the model's bytes and trusts them: they are loaded only where
# the user says that the file can be trusted.
BOOSTERS = {
    "lightgbm.sklearn.LGBMRegressor": "ObjectNode",
    "lightgbm.basic.Booster": "ObjectNode",
    "xgboost.sklearn.XGBRegressor": "ObjectNode",
    "xgboost.core.Booster": "ObjectNode",
    "catboost.core.CatBoostRegressor": "ObjectNode",
    "builtins.bytearray": "BytearrayNode",
    "builtins.bytes": "BytesNode",
    "collections.defaultdict": "DefaultDictNode",
    "collections.OrderedDict": "TypeNode",
}
_NO_OBJECTS = frozenset[str]().union(*_BOUND.values())


def bound(loader: str, name: str) -> bool:
    """Whether a loader may make a type: each loader has its types, and objects are made of all that are left.

    >>> bound("LossNode", "sklearn._loss._loss.CyPinballLoss"), bound("LossNode", "builtins.str")
    (True, False)
    >>> bound("ObjectNode", "sklearn.svm._classes.SVR"), bound("ObjectNode", "builtins.str")
    (True, False)
    """
    if loader == "CachedNode":  # what was loaded before
        return True
    return name not in _NO_OBJECTS if loader == "ObjectNode" else name in _BOUND.get(loader, ())


def trusted_types() -> frozenset[str]:
    """The full names of all trusted types: the fixed list, and every gate that is registered at this moment.

    >>> "gatewise.experts.column.ColumnExpert" in trusted_types()
    True
    """
    own = (*_GATEWISE, *gate_classes())
    return _FIXED | {f"{one.__module__}.{one.__qualname__}" for one in own}
