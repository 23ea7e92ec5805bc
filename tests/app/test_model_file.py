"""Model files: what goes in comes out, and a file from an untrusted hand does nothing."""

import json
import zipfile

import numpy as np
import pytest

skops = pytest.importorskip("skops.io")
pytest.importorskip("pandas")

from gatewise import MoEClassifier, MoERegressor, MoESettings
from gatewise.app.models import audit, fitting, model_file, pool_file, tables
from gatewise.app.models.gate_names import gate_names
from gatewise.app.models.pool_models import CLASSIFIERS, REGRESSORS
from gatewise.app.models.predicting import predict_frame
from gatewise.experts import ColumnExpert
from tests.app.small_models import HOSTILE, make_frame, saved_model, TARGET


@pytest.fixture
def path(tmp_path):
    return model_file.save_model(saved_model(), tmp_path / "model.skops")


def rewrite(path, entries):
    """Replace entries of the archive."""
    with zipfile.ZipFile(path) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in {**content, **entries}.items():
            archive.writestr(name, data)


def read(path, name):
    with zipfile.ZipFile(path) as archive:
        return json.loads(archive.read(name))


def test_a_loaded_model_is_the_saved_one(path):
    loaded, frame = model_file.load_model(path), make_frame(50, seed=1)
    ours, theirs = (predict_frame(one, frame, weights=True, std=True) for one in (saved_model(), loaded))
    assert ours.equals(theirs)
    assert list(ours)[:2] == ["prediction", "std"]
    weights = ours.filter(like="weight ")
    np.testing.assert_allclose(weights.sum(axis=1), 1.0)
    assert loaded.target == TARGET
    assert loaded.facts == saved_model().facts
    assert np.array_equal(loaded.rows, saved_model().rows)
    assert str(loaded.model.region_table()) == str(saved_model().model.region_table())


def test_facts_are_json(path):
    facts = json.loads(json.dumps(saved_model().facts, allow_nan=False))
    assert facts["rows"] == 160
    assert {score["method"] for score in facts["test"]["scores"]} >= {"Gatewise", "convex stack", "tree alone"}


@pytest.mark.slow
def test_every_allowed_regressor_can_be_saved(tmp_path):
    table = tables.training_table(make_frame(40), TARGET)
    for path, regressor in REGRESSORS.models.items():
        known = regressor().get_params()
        few = {name: 3 for name in ("n_estimators", "max_iter") if name in known and "ensemble" in path}
        expert = pool_file.make_expert("here", regressor, few, table.X)
        model = MoERegressor([("one", expert)], random_state=0).fit(table.X, table.y)
        saved = model_file.SavedModel(model, TARGET, table.columns, tables.row_keys(table.X, table.y), {})
        loaded = model_file.load_model(model_file.save_model(saved, tmp_path / "m.skops"))
        assert np.array_equal(loaded.model.predict(table.X), model.predict(table.X)), path


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "in format 99; gatewise .* reads format 2 only: fit it again with gatewise fit"),
        (
            {"versions": {"gatewise": "9.9", "scikit-learn": "1.0"}},
            "saved with gatewise 9.9, but this is gatewise .*: fit it again with gatewise fit",
        ),
        ({"versions": {**model_file.versions(), "scikit-learn": "0.1"}}, "saved with scikit-learn 0.1"),
        ({"columns": []}, "damaged"),
        ({"columns": 7}, "damaged"),
        ({"rows": [1, 2]}, "damaged"),
        ({"facts": None}, "damaged"),
    ],
)
def test_a_stamp_that_does_not_fit(path, change, message):
    rewrite(path, {"gatewise.json": json.dumps({**read(path, "gatewise.json"), **change})})
    with pytest.raises(ValueError, match=message):
        model_file.load_model(path)


def test_a_version_is_checked_before_anything_is_loaded(path, monkeypatch):
    stamp = read(path, "gatewise.json")
    rewrite(path, {"gatewise.json": json.dumps({**stamp, "format": 3}), "schema.json": "{}"})
    monkeypatch.setattr(skops, "loads", lambda *_, **__: pytest.fail("loaded"))
    with pytest.raises(ValueError, match="format 3"):
        model_file.load_model(path)


def test_a_model_of_the_first_version_says_what_to_do(path):
    """Its types had other module names, so that it cannot be loaded, whatever is on the list of trusted types."""
    stamp, schema = read(path, "gatewise.json"), read(path, "schema.json")
    old = {"format": 1, "versions": {**stamp["versions"], "gatewise": "0.1.0"}}
    schema["__module__"] = "gatewise.estimators.moe"
    rewrite(path, {"gatewise.json": json.dumps({**stamp, **old}), "schema.json": json.dumps(schema)})
    words = r"this model was saved by gatewise 0\.1\.0 in format 1; .*: fit it again with gatewise fit"
    with pytest.raises(ValueError, match=words):
        model_file.load_model(path)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 broken", b"not a model", b"\x80\x04N."])
def test_files_that_are_no_models(tmp_path, content):
    path = tmp_path / "m.skops"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="not a model file"):
        model_file.load_model(path)


class Bomb:
    """What `pickle` would run on loading."""

    def __reduce__(self):
        return (open, ("exploded", "w"))


HOSTILE_NODES = [
    {"__class__": "system", "__module__": "posix", "__loader__": "FunctionNode"},
    {"__class__": "Popen", "__module__": "subprocess", "__loader__": "TypeNode"},
    {"__class__": "Bomb", "__module__": "tests.app.test_model_file", "__loader__": "ObjectNode"},
    {"__class__": "MoERegressor", "__module__": "gatewise.estimators.moe_regressor", "__loader__": "MethodNode",
     "content": {"func": "__reduce__", "obj": {}}},
    {"__class__": "methodcaller", "__module__": "operator", "__loader__": "OperatorFuncNode", "attrs": {}},
    {"__class__": "load", "__module__": "numpy", "__loader__": "FunctionNode"},
    {"__class__": "eval", "__module__": "builtins", "__loader__": "ConstructorFromReduceNode", "content": {}},
    {"__class__": "str", "__module__": "builtins"},
]  # fmt: skip


@pytest.mark.parametrize("node", HOSTILE_NODES, ids=lambda node: f"{node['__class__']}")
def test_a_hostile_file_is_refused_and_nothing_is_run(path, node, monkeypatch, tmp_path):
    schema = read(path, "schema.json")
    schema["content"]["content"]["extra"] = node  # beside the model's own attributes
    rewrite(path, {"schema.json": json.dumps(schema)})
    monkeypatch.setattr(skops, "loads", lambda *_, **__: pytest.fail("loaded"))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="refused, as it holds what no model of Gatewise does"):
        model_file.load_model(path)
    assert not (tmp_path / "exploded").exists()


def test_an_old_protocol_is_refused(path, monkeypatch):
    schema = read(path, "schema.json")
    other = {"module_path": "posix", "function": "system"}  # what the loader of protocol 0 would import
    schema["content"]["content"]["extra"] = {
        "__class__": "check_array", "__module__": "sklearn.utils.validation", "__loader__": "FunctionNode",
        "content": other,
    }  # fmt: skip
    rewrite(path, {"schema.json": json.dumps({**schema, "protocol": 0})})
    monkeypatch.setattr(skops, "loads", lambda *_, **__: pytest.fail("loaded"))
    with pytest.raises(ValueError, match="protocol 0 of skops"):
        model_file.load_model(path)


def test_the_list_holds_nothing_that_runs():
    from gatewise.app.models.trusted_types import LOADERS, trusted_types

    types = trusted_types()
    assert not {"MethodNode", "OperatorFuncNode", "ConstructorFromReduceNode"} & LOADERS
    modules = {name.rsplit(".", 1)[0].split(".")[0] for name in types}
    assert modules == {"builtins", "functools", "numpy", "gatewise", "sklearn"}
    functions = [name for name in types if name.rsplit(".", 1)[1].islower()]
    functions = [name for name in functions if not name.startswith(("builtins", "numpy"))]
    assert sorted(functions) == ["functools.partial", "sklearn.utils.validation.check_array"]


@pytest.mark.slow
def test_every_allowed_classifier_can_be_saved(tmp_path):
    frame = make_frame(60)
    frame = frame.assign(**{TARGET: np.where(frame[TARGET] > frame[TARGET].median(), "high", "low")})
    table = tables.training_table(frame, TARGET, classes=True)
    for path, classifier in CLASSIFIERS.models.items():
        known = classifier().get_params()
        few = {name: 3 for name in ("n_estimators", "max_iter") if name in known and "ensemble" in path}
        expert = pool_file.make_expert("here", classifier, few, table.X, CLASSIFIERS)
        model = MoEClassifier([("one", expert)], gates=["linear"], random_state=0).fit(table.X, table.y)
        saved = model_file.SavedModel(model, TARGET, table.columns, tables.row_keys(table.X, table.y), {})
        loaded = model_file.load_model(model_file.save_model(saved, tmp_path / "m.skops"))
        assert np.array_equal(loaded.model.predict_proba(table.X), model.predict_proba(table.X)), path


@pytest.mark.parametrize("gate", gate_names())
@pytest.mark.slow
def test_every_gate_can_be_saved(gate, tmp_path):
    table = tables.training_table(make_frame(60), TARGET)
    pool = [("one", ColumnExpert(HOSTILE[3])), ("two", ColumnExpert(HOSTILE[0]))]
    settings = MoESettings(spreads=(3.0,), n_orders=2)
    model = MoERegressor(pool, gates=(gate,), k=None, random_state=0, settings=settings)
    saved = fitting.fit_table(model, table, None)
    loaded = model_file.load_model(model_file.save_model(saved, tmp_path / "m.skops"))
    assert np.array_equal(loaded.model.predict(table.X), model.predict(table.X))


def test_the_history_of_specialization_can_be_saved(tmp_path):
    from sklearn.linear_model import LinearRegression

    table = tables.training_table(make_frame(60).select_dtypes("number").fillna(0.0), TARGET)
    settings = MoESettings(spreads=(3.0,), n_orders=2, learners=(), specialize=1)
    model = MoERegressor([LinearRegression(), LinearRegression()], gates="linear", random_state=0, settings=settings)
    saved = fitting.fit_table(model, table, None)
    loaded = model_file.load_model(model_file.save_model(saved, tmp_path / "m.skops")).model
    assert len(loaded.history_) == 2
    for ours, theirs in zip(model.history_, loaded.history_, strict=True):
        assert ours.error == theirs.error
        assert str(ours.specialization.report) == str(theirs.specialization.report)  # NaN is not equal to itself


def test_a_pickle_inside_is_not_read(path, tmp_path, monkeypatch):
    import pickle

    with zipfile.ZipFile(path) as archive:
        array = next(name for name in archive.namelist() if name.endswith(".npy"))
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(117) + b"\n"
    rewrite(path, {array: b"\x93NUMPY\x01\x00v\x00" + header + pickle.dumps(Bomb())})
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"damaged .*allow_pickle=False"):
        model_file.load_model(path)
    assert not (tmp_path / "exploded").exists()


def crafted_tree(**changes):
    """A fitted decision tree of one column with other numbers in its first node."""
    from sklearn.tree import DecisionTreeRegressor
    from sklearn.tree._tree import Tree

    X, y = np.random.default_rng(0).normal(size=(2, 100))
    model = DecisionTreeRegressor().fit(X[:, None], y)
    state = model.tree_.__getstate__()
    nodes = state["nodes"].copy()
    for field, value in changes.items():
        nodes[field][0] = value
    tree = Tree(1, np.array([1], dtype=np.intp), 1)
    tree.__setstate__({**state, "nodes": nodes})
    model.tree_ = tree
    return model


def crafted_boosting(**changes):
    from sklearn.ensemble import HistGradientBoostingRegressor

    X, y = np.random.default_rng(0).normal(size=(2, 100))
    model = HistGradientBoostingRegressor(max_iter=3).fit(X[:, None], y)
    for field, value in changes.items():
        model._predictors[0][0].nodes[field][0] = value
    return model


def crafted_forest(n_features):
    from sklearn.ensemble import RandomForestRegressor

    X, y = np.random.default_rng(0).normal(size=(2, 60))
    model = RandomForestRegressor(2).fit(X[:, None], y)
    model.n_features_in_ = n_features
    return model


def crafted_neighbours(rows=40, n=40):
    from sklearn.neighbors import KNeighborsRegressor

    X, y = np.random.default_rng(0).normal(size=(2, 40))
    model = KNeighborsRegressor(algorithm="kd_tree").fit(X[:, None], y)
    model._fit_X, model.n_samples_fit_ = model._fit_X[:rows], n
    return model


def crafted_support(**changes):
    from sklearn.svm import SVR

    X, y = np.random.default_rng(0).normal(size=(2, 40))
    model = SVR().fit(X[:, None], y)
    vars(model).update(changes)
    return model


def crafted_support_classes(**changes):
    from sklearn.svm import SVC

    rng = np.random.default_rng(0)
    model = SVC().fit(rng.normal(size=(40, 1)), np.arange(40) % 3)
    vars(model).update(changes)
    return model


def crafted_class_neighbours(**changes):
    from sklearn.neighbors import KNeighborsClassifier

    model = KNeighborsClassifier(algorithm="kd_tree").fit(np.arange(40.0)[:, None], np.arange(40) % 3)
    vars(model).update(changes)
    return model


CRAFTED = {
    "support vectors of another number": lambda: crafted_support_classes(
        _n_support=np.array([10**6, 1, 1], dtype=np.int32)
    ),
    "fewer classes than coefficients": lambda: crafted_support_classes(classes_=np.arange(2)),
    "fewer intercepts than pairs of classes": lambda: crafted_support_classes(_intercept_=np.zeros(1)),
    "a class that is not there": lambda: crafted_class_neighbours(_y=np.full(40, 7)),
    "a child beyond the end": lambda: crafted_tree(left_child=10**6),
    "a child that leads back": lambda: crafted_tree(right_child=0),
    "a column that is not there": lambda: crafted_tree(feature=5),
    "a boosted child beyond the end": lambda: crafted_boosting(left=10**6),
    "a boosted column that is not there": lambda: crafted_boosting(feature_idx=9),
    "a set for a column of numbers": lambda: crafted_boosting(is_categorical=1),
    "a set that is not there": lambda: with_categories(crafted_boosting(is_categorical=1, bitset_idx=7)),
    "no nodes": lambda: strip_nodes(crafted_boosting()),
    "a forest of other columns": lambda: crafted_forest(3),
    "fewer rows than responses": lambda: crafted_neighbours(rows=10),
    "more rows than there are": lambda: crafted_neighbours(n=10**9),
    "support vectors of other sizes": lambda: crafted_support(_n_support=np.array([10**6, 0], dtype=np.int32)),
    "support vectors of other columns": lambda: crafted_support(n_features_in_=7),
    "a kernel of one's own": lambda: crafted_support(kernel="precomputed"),
    "coefficients of another length": lambda: crafted_support(_dual_coef_=np.ones((1, 2))),
}


def with_categories(model):
    model.is_categorical_ = np.ones(1, dtype=bool)
    return model


def strip_nodes(model):
    predictor = model._predictors[0][0]
    predictor.nodes = predictor.nodes[:0]
    return model


@pytest.mark.parametrize("what", CRAFTED)
def test_crafted_models_are_found_before_compiled_code_meets_them(what):
    with pytest.raises(ValueError, match="broken"):
        audit.check_contents({"pool": [("one", CRAFTED[what]())]})


def test_a_broken_tree_is_found_behind_hundreds_of_whole_objects():
    whole = [{"number": [number]} for number in range(500)]
    for pool in ([*whole, crafted_tree(feature=5)], [crafted_tree(feature=5), *whole]):
        with pytest.raises(ValueError, match="broken"):
            audit.check_contents(pool)


def test_a_loaded_model_is_looked_into(path, monkeypatch):
    seen = []
    monkeypatch.setattr(model_file, "check_contents", seen.append)
    assert [model_file.load_model(path).model] == seen


def test_whole_models_pass_and_neighbours_are_built_again():
    neighbours = crafted_neighbours()
    old, expected = neighbours._tree, neighbours.predict([[0.3]])
    audit.check_contents([crafted_tree(), crafted_boosting(), crafted_forest(1), neighbours, crafted_support()])
    audit.check_contents([crafted_support_classes(), crafted_class_neighbours()])
    assert neighbours._tree is not old
    assert neighbours.predict([[0.3]]) == expected


def test_a_tree_outside_of_a_model_is_refused():
    with pytest.raises(ValueError, match="broken"):
        audit.check_contents([crafted_tree().tree_])


def test_an_array_that_is_not_as_large_as_it_says(path):
    with zipfile.ZipFile(path) as archive:
        array = next(name for name in archive.namelist() if name.endswith(".npy"))
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (300000000,), }".ljust(117) + b"\n"
    rewrite(path, {array: b"\x93NUMPY\x01\x00v\x00" + header + b"12345678"})
    with pytest.raises(ValueError, match="says that it holds"):
        model_file.load_model(path)


def test_a_file_that_unpacks_to_very_much_is_refused(path, monkeypatch):
    monkeypatch.setattr(audit, "MOST_BYTES", 10_000)
    with pytest.raises(ValueError, match="unpacks to"):
        model_file.load_model(path)


def test_a_loader_makes_only_its_own_types(path, monkeypatch):
    schema = read(path, "schema.json")
    schema["content"]["content"]["extra"] = {
        "__class__": "KNeighborsRegressor", "__module__": "sklearn.neighbors._regression", "__loader__": "LossNode",
        "__reduce__": {"args": {}}, "content": {},
    }  # fmt: skip
    rewrite(path, {"schema.json": json.dumps(schema)})
    monkeypatch.setattr(skops, "loads", lambda *_, **__: pytest.fail("loaded"))
    with pytest.raises(ValueError, match="KNeighborsRegressor by LossNode"):
        model_file.load_model(path)


def test_what_was_checked_is_what_is_loaded(path, tmp_path, monkeypatch):
    """The file is replaced after its types were checked; the model is still that of the bytes that were checked."""
    checked = audit.untrusted_types

    def replace_file(schema, boosters=False):
        path.write_bytes(b"something else")
        return checked(schema, boosters)

    monkeypatch.setattr(model_file, "untrusted_types", replace_file)
    assert model_file.load_model(path).target == TARGET


def test_a_file_that_asks_for_many_processes_is_refused(path):
    saved = saved_model()
    before, saved.model.n_jobs = saved.model.n_jobs, 20_000
    try:
        where = model_file.save_model(saved, path)
    finally:
        saved.model.n_jobs = before
    with pytest.raises(ValueError, match="20000 processes"):
        model_file.load_model(where)


@pytest.mark.parametrize("path", REGRESSORS.boosted)
def test_boosted_trees_of_other_packages_are_loaded_where_the_file_is_trusted(path, tmp_path):
    package = path.partition(".")[0]
    pytest.importorskip(package)
    table = tables.training_table(make_frame(60), TARGET)
    (tmp_path / "pool.toml").write_text(
        f"[[experts]]\nname = 'b'\nmodel = '{path}'\nparameters = {{ max_depth = 2 }}"
    )
    ((name, model),) = pool_file.read_pool(tmp_path / "pool.toml", table.X).experts
    pool = [(name, model), ("one", ColumnExpert(HOSTILE[3]))]
    settings = MoESettings(spreads=(3.0,), n_orders=2, learners=())
    fitted = MoERegressor(pool, gates=("linear",), k=None, cv=2, random_state=0, settings=settings)
    where = model_file.save_model(fitting.fit_table(fitted, table, None), tmp_path / "m.skops")
    with pytest.raises(ValueError, match="use --boosters"):
        model_file.load_model(where)
    loaded = model_file.load_model(where, boosters=True)
    np.testing.assert_allclose(loaded.model.predict(table.X), fitted.predict(table.X))
