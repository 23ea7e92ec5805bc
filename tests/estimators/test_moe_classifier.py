"""`MoEClassifier`: laws of probabilities, experts of every kind, bad input, and scikit-learn citizenship."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import sklearn
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import TimeSeriesSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

import gatewise as gw
from gatewise.router.class_scores import ClassScores

QUICK = gw.MoESettings(n_orders=2, spreads=(1.0, 10.0), learners=())
BARE = replace(QUICK, n_orders=1, spreads=(1.0,), correct=False)
PLAIN = [("bayes", GaussianNB()), ("prior", DummyClassifier(strategy="prior"))]


class ColumnProbability(ClassifierMixin, BaseEstimator):
    """Two classes: the probability of the second one is a column of X."""

    def __init__(self, column=0, value=None, total=1.0):
        self.column = column
        self.value = value
        self.total = total

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        p = X[:, self.column] if self.value is None else np.full(len(X), self.value)
        return np.column_stack([self.total - p, p])

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class Labels(ClassifierMixin, BaseEstimator):
    """A classifier without probabilities."""

    def fit(self, X, y):
        self.tree_ = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y)
        self.classes_ = self.tree_.classes_
        return self

    def predict(self, X):
        return self.tree_.predict(X)


@pytest.fixture(scope="module")
def halves():
    """Two forecasts of a probability in columns 1 and 2, each right on one side of column 0."""
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(-1, 1, 600), rng.uniform(0.05, 0.95, (600, 2))])
    truth = np.where(X[:, 0] > 0, X[:, 1], X[:, 2])
    return X, np.where(rng.uniform(size=600) < truth, "yes", "no"), truth


@pytest.fixture(scope="module")
def local(halves):
    X, y, _ = halves
    experts = [("one", ColumnProbability(1)), ("two", ColumnProbability(2))]
    return gw.MoEClassifier(experts, gates=["linear"], random_state=0, settings=QUICK).fit(X, y)


@pytest.fixture(scope="module")
def three():
    """Three classes, and a model with every kind of member."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(120, 3))
    scores = np.column_stack([2 * X[:, 0], X[:, 1] ** 2, np.zeros(120)])
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1) + 10
    experts = [LinearDiscriminantAnalysis(), GaussianNB(), RidgeClassifier(), ("labels", Labels())]
    settings = replace(QUICK, learners=("boosted",))
    return (
        X,
        y,
        gw.MoEClassifier(experts, gates=["linear", "forecast"], random_state=0, settings=settings).fit(X, y),
    )


@parametrize_with_checks(
    [gw.MoEClassifier(PLAIN, gates=["linear"], k=None, cv=2, random_state=0, settings=replace(BARE, test=False))]
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks(estimator, check):
    check(estimator)


class TestFinding:
    def test_locality_is_found_and_used(self, local, halves):
        X, y, truth = halves
        assert local.verdict_.gates
        assert local.verdict_.gain.low > 0.0
        stack = gw.MoEClassifier(local.experts, gates=(), random_state=0, settings=QUICK).fit(X, y)
        best = np.column_stack([1 - truth, truth])
        losses = [log_loss(y, p) - log_loss(y, best) for p in (local.predict_proba(X), stack.predict_proba(X))]
        assert losses[0] < 0.3 * losses[1]
        clear = np.abs(X[:, 0]) > 0.2
        assert (local.gate_weights(X).argmax(axis=1) == (X[:, 0] < 0))[clear].mean() > 0.95

    def test_regions_in_log_loss_and_in_errors(self, local):
        for measure in ("log loss", "errors"):
            table = local.region_table(measure)
            assert all(row.advantage.low > 0 for row in table)
            assert "x0" in table.rows[0].description
        with pytest.raises(ValueError, match="measure"):
            local.region_table("brier")

    def test_the_summary_and_the_report_tell_the_scores(self, local):
        assert "calibration error" in local.summary()
        facts = local.report()
        assert facts["classes"] == ["no", "yes"]
        assert facts["held_out_scores"]["model"]["log_loss"] < facts["held_out_scores"]["convex stack"]["log_loss"]
        convex = next(one for one in facts["candidates"] if one["candidate"] == "convex stack")
        assert convex["calibration_error"] == pytest.approx(
            facts["held_out_scores"]["convex stack"]["calibration_error"]
        )

    @pytest.mark.parametrize("weighted", [False, True])
    def test_a_model_no_better_than_class_frequencies_says_so(self, weighted):
        rng = np.random.default_rng(1)
        X, noise = rng.normal(size=(2, 120, 3))
        weight = rng.uniform(0.2, 3.0, 120) if weighted else None
        for score, better in ((noise[:, 0], False), (2 * X[:, 0] + noise[:, 0], True)):
            y = np.where(score > 0.3, "yes", "no")
            model = gw.MoEClassifier([("tree", DecisionTreeClassifier()), *PLAIN], random_state=0, settings=BARE)
            model.fit(X, y, weight)
            data = model.out_of_fold_
            known = np.ones(120) if weight is None else weight[data.rows]
            frequencies = np.tile(np.bincount(data.outcome, known) / known.sum(), (120, 1))
            theirs = ClassScores.of(frequencies, data.outcome, known).log_loss
            ours = ClassScores.of(data.probabilities, data.outcome, known).log_loss
            assert model.report()["gain_over_constant"] == pytest.approx(1.0 - ours / theirs)
            assert (ours < theirs) == better
            told = f"no better than the class frequencies: held-out log loss {ours:.4g}, and theirs {theirs:.4g}"
            assert (told in model.summary()) != better


class TestProbabilities:
    def test_laws(self, three):
        X, _, model = three
        p = model.predict_proba(X)
        assert (p > 0).all()
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
        for readout in ("aggregate", "single"):
            parts = model.explain(X, readout)
            np.testing.assert_allclose(sum(parts.values()), model.predict_proba(X, readout), atol=1e-12)
        weights = model.gate_weights(X)
        assert (weights >= 0).all()
        np.testing.assert_allclose(weights.sum(axis=1), 1.0)
        stacks = {"tempered stack", "log-linear stack", "logistic stack", "logistic stack on inputs", "boosted stack"}
        assert stacks <= model.explain(X).keys()

    def test_a_logistic_stack_on_inputs_sees_what_no_expert_says(self):
        rng = np.random.default_rng(0)
        X = np.column_stack([rng.normal(size=300), rng.uniform(0.2, 0.8, size=(300, 2))])
        y = (rng.uniform(size=300) < 1.0 / (1.0 + np.exp(-2.0 * X[:, 0]))).astype(int)
        model = gw.MoEClassifier([ColumnProbability(1), ColumnProbability(2)], gates=["linear"], cv="prefit")
        model.set_params(random_state=0, settings=replace(QUICK, correct=True)).fit(X, y)
        losses = {str(c): loss for c, loss in zip(model.candidates_, model.log_loss_, strict=True)}
        blind = min(losses[f"logistic stack, spread {spread}"] for spread in ("1", "3"))
        for spread in ("0.1", "0.3"):
            assert losses[f"logistic stack on inputs, spread {spread}"] < 0.85 * blind

    def test_a_stack_on_inputs_does_not_take_an_expert_from_itself(self):
        # With free slopes of both, a line less the same line without a fold is the line of that fold.
        rng = np.random.default_rng(1)
        X, y = rng.normal(size=(200, 4)), rng.integers(0, 2, size=200)
        model = gw.MoEClassifier([("line", LogisticRegression()), ("prior", DummyClassifier())], gates=["linear"])
        model.set_params(random_state=0, settings=replace(QUICK, correct=True)).fit(X, y)
        losses = {str(c): loss for c, loss in zip(model.candidates_, model.log_loss_, strict=True)}
        assert min(loss for name, loss in losses.items() if "on inputs" in name) > np.log(2.0) - 0.01

    def test_without_other_members_the_mixture_is_that_of_the_experts(self, halves):
        X, y, _ = halves
        settings = replace(QUICK, correct=False)
        model = gw.MoEClassifier(
            [ColumnProbability(1), ColumnProbability(2)], gates=["linear"], random_state=0, settings=settings
        )
        model.fit(X, y)
        mixture = np.einsum("im,imc->ic", model.gate_weights(X), model.expert_probabilities(X))
        np.testing.assert_allclose(model.predict_proba(X), mixture)

    def test_the_calibration_error_of_a_candidate_with_a_share_is_that_of_its_probabilities(self, three):
        _, _, model = three
        held = model.out_of_fold_
        answers = {
            "convex stack": held.stack,
            **dict(zip(model.get_feature_names_out(), held.experts.swapaxes(0, 1), strict=True)),
        }
        known = 0
        for c, share, error in zip(model.candidates_, model.weights_, model.calibration_error_, strict=True):
            assert np.isnan(error) == (share < 0.01)
            if share >= 0.01 and str(c) in answers:
                assert error == pytest.approx(ClassScores.of(answers[str(c)], held.outcome).calibration_error)
                known += 1
        assert known

    def test_held_out_probabilities_agree_with_the_candidates(self, three):
        _, _, model = three
        held = model.out_of_fold_
        np.testing.assert_allclose(held.probabilities.sum(axis=1), 1.0)
        observed = held.probabilities[np.arange(len(held.rows)), held.outcome]
        assert np.isclose(-np.log(observed).mean(), model.history_[0].error)
        columns, stack = held.experts.transpose(0, 2, 1), held.stack
        folds = np.array_split(np.arange(len(stack)), 5)  # the stack of a fold was fitted to the others
        weights = [np.linalg.lstsq(columns[one].reshape(-1, 4), stack[one].ravel())[0] for one in folds]
        assert np.ptp(weights, axis=0).max() > 1e-3

    def test_relabelling_classes_relabels_columns(self, halves):
        X, y, _ = halves
        experts = [LogisticRegression(), GaussianNB()]
        given = gw.MoEClassifier(experts, gates=["linear"], random_state=0, settings=QUICK).fit(X[:150], y[:150])
        turned = gw.MoEClassifier(experts, gates=["linear"], random_state=0, settings=QUICK).fit(
            X[:150], y[:150] == "no"
        )
        np.testing.assert_allclose(given.predict_proba(X), turned.predict_proba(X)[:, ::-1], atol=0.02)

    def test_an_expert_that_is_surely_wrong_gets_a_floor_and_little_weight(self, halves):
        X, y, truth = halves
        X = np.column_stack([X[:, 0], truth])
        sure = [("sure", ColumnProbability(value=1.0)), ("true", ColumnProbability(1))]
        model = gw.MoEClassifier(sure, gates=["linear"], random_state=0, settings=QUICK).fit(X, y)
        assert model.floor_[0] == pytest.approx(0.02)
        assert (model.floor_ > 1 / 601).all()
        assert np.isfinite(model.held_out_scores_["sure"].log_loss)
        assert model.stack_weights_[0] < 0.3

    @pytest.mark.parametrize("k", [None, 1])
    def test_an_expert_that_is_given_twice_counts_once(self, three, k):
        X, y, _ = three
        experts = [("bayes", GaussianNB()), ("line", RidgeClassifier()), ("labels", Labels())]
        light = {"gates": ["linear"], "k": k, "random_state": 0, "settings": replace(QUICK, test=False)}
        one = gw.MoEClassifier(experts, **light).fit(X, y)
        two = gw.MoEClassifier([("again", GaussianNB()), *experts], **light).fit(X, y)
        assert two.left_out_ == ["bayes"]
        p = two.predict_proba(X)
        np.testing.assert_allclose(p, one.predict_proba(X), atol=0.005)
        np.testing.assert_allclose(two.gate_weights(X)[:, [0, 2, 3]], one.gate_weights(X), atol=0.005)
        assert not two.gate_weights(X)[:, 1].any()
        parts = two.explain(X)
        assert not parts["bayes"].any()
        np.testing.assert_allclose(sum(parts.values()), p, atol=1e-12)
        held = two.out_of_fold_
        assert held.experts.shape == (120, 4, 3)
        np.testing.assert_array_equal(held.experts[:, 0], held.experts[:, 1])
        assert two.partial_fit(X[:9], y[:9]).online_probabilities_.shape == (9,)

    def test_sparse_prediction_asks_one_expert(self, halves):
        X, y, _ = halves
        model = gw.MoEClassifier(
            [ColumnProbability(1), ColumnProbability(2)],
            k=1,
            random_state=0,
            settings=replace(QUICK, readout="single"),
        ).fit(X, y)
        weights = model.gate_weights(X)
        assert ((weights > 0).sum(axis=1) == 1).all()
        mixture = np.einsum("im,imc->ic", weights, model.expert_probabilities(X))
        np.testing.assert_allclose(model.predict_proba(X), mixture)


class TestDecisions:
    def test_a_threshold_is_a_cost_matrix(self, local, halves):
        X, _, _ = halves
        p = local.predict_proba(X)[:, 1]
        strict, matrix = clone(local), clone(local)
        for model, cost in ((strict, 0.7), (matrix, [[0.0, 0.7], [0.3, 0.0]])):
            model.__dict__.update({**local.__dict__, "cost": cost})
            np.testing.assert_array_equal(model.predict(X) == "yes", p >= 0.7)

    @pytest.mark.parametrize(
        "cost", [1.5, "cheap", [[0.0, 1.0, 2.0]], [[0.0], [1.0, 0.0]], [[0.0, np.inf], [1.0, 0.0]]]
    )
    def test_bad_costs(self, halves, cost):
        X, y, _ = halves
        with pytest.raises(ValueError, match="cost must be None, a threshold"):
            gw.MoEClassifier(PLAIN, cost=cost).fit(X, y)


class TestRows:
    def test_time_order_partial_fit_and_new_labels(self, halves):
        X, y, _ = halves
        model = gw.MoEClassifier(PLAIN, gates=["linear"], cv=TimeSeriesSplit(4), random_state=0, settings=QUICK).fit(
            X[:300], y[:300]
        )
        model.partial_fit(X[300:400], y[300:400])
        assert model.online_probabilities_.shape == (100,)
        assert ((model.online_probabilities_ > 0) & (model.online_probabilities_ < 1)).all()
        model.partial_fit(X[400:420], y[400:420], update_experts=True)
        with pytest.raises(ValueError, match="y has the label 'maybe', which"):
            model.partial_fit(X[:1], ["maybe"])
        model.partial_fit(X[420:430], y[420:430], classes=["yes", "no"])
        with pytest.raises(
            ValueError, match=r"classes must be those of the fit, \['no', 'yes'\], not \['no', 'maybe'\]"
        ):
            model.partial_fit(X[:1], y[:1], classes=["no", "maybe"])

    @pytest.mark.parametrize("classes", [["no", "yes", "maybe"], ["no"]])
    def test_classes_of_a_first_partial_fit_are_those_of_its_rows(self, halves, classes):
        X, y, _ = halves
        with pytest.raises(ValueError, match="classes must be those of the first rows"):
            gw.MoEClassifier(PLAIN).partial_fit(X, y, classes=classes)

    def test_prefit_experts_are_used_as_they_are(self, halves):
        X, y, _ = halves
        experts = [GaussianNB().fit(X[:300], y[:300]), LogisticRegression().fit(X[:300], y[:300])]
        model = gw.MoEClassifier(experts, gates=["linear"], cv="prefit", random_state=0, settings=QUICK).fit(
            X[300:], y[300:]
        )
        assert model.experts_[0] is experts[0]
        with pytest.raises(
            TypeError, match=r"'ridgeclassifier' \(RidgeClassifier\) has none.*CalibratedClassifierCV"
        ):
            gw.MoEClassifier([RidgeClassifier().fit(X, y)], cv="prefit").fit(X, y)

    def test_classes_that_given_experts_alone_know_are_classes(self, halves):
        X, y, _ = halves
        wider = np.where(X[:, 0] > 0.8, "maybe", y)
        experts = [GaussianNB().fit(X, wider), GaussianNB().fit(X, y)]
        model = gw.MoEClassifier(experts, gates=(), cv="prefit", random_state=0, settings=BARE).fit(X[:300], y[:300])
        assert model.classes_.tolist() == ["maybe", "no", "yes"]
        p = model.predict_proba(X)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        assert (p > 0).all()
        model.partial_fit(X[300:], wider[300:], update_experts=True)

    def test_updates_reach_experts_with_decisions(self, halves):
        X, y, _ = halves
        model = gw.MoEClassifier(
            [SGDClassifier(random_state=0), GaussianNB()], gates=(), random_state=0, settings=BARE
        )
        before = model.fit(X[:300], y[:300]).expert_probabilities(X)[:, 0]
        model.partial_fit(X[300:], y[300:], update_experts=True)
        assert np.abs(model.expert_probabilities(X)[:, 0] - before).max() > 1e-3

    def test_sample_weights_of_zero_leave_rows_out(self, halves):
        X, _, _ = halves
        y = np.where(X[:, 0] > 0, "yes", "no")
        wrong = np.where(X[:, 0] > 0, "no", "yes")
        weight = np.repeat([1.0, 0.0], 200)
        both = np.concatenate([X[:200], X[:200]]), np.concatenate([y[:200], wrong[:200]])
        model = gw.MoEClassifier(PLAIN, gates=["linear"], random_state=0, settings=QUICK)
        assert log_loss(y[:200], model.fit(*both, sample_weight=weight).predict_proba(X[:200])) < 0.3

    def test_no_fold_divides_a_group(self):
        """Labels are those of groups: an expert that remembers rows is right only where its group was in the fit."""
        rng = np.random.default_rng(3)
        groups = rng.permutation(np.repeat(np.arange(20), 4))
        X, y = groups[:, None] + rng.normal(scale=0.01, size=(80, 1)), np.where(np.arange(20) % 2, "a", "b")[groups]
        experts = [("memory", DecisionTreeClassifier(random_state=0)), ("prior", DummyClassifier())]
        model = gw.MoEClassifier(experts, gates=["linear"], random_state=0, settings=BARE)
        divided = model.fit(X, y).held_out_scores_["memory"].accuracy
        whole = model.fit(X, y, groups=groups)
        assert divided > 0.95
        assert whole.held_out_scores_["memory"].accuracy < 0.75
        assert whole.verdict_.headline != "gating pays"
        for cv in (None, 5):  # metadata routing: there is no splitter to ask for them
            with sklearn.config_context(enable_metadata_routing=True):
                routed = clone(model).set_params(cv=cv).fit(X, y, groups=groups)
            assert routed.held_out_scores_["memory"].accuracy == whole.held_out_scores_["memory"].accuracy

    def test_rare_classes_and_folds_without_them(self):
        rng = np.random.default_rng(5)
        X = rng.normal(size=(60, 2))
        y = np.where(X[:, 0] > 0, "a", "b").astype(object)
        y[7] = "rare"
        experts = [GaussianNB(), LogisticRegression(), RidgeClassifier(), ("labels", Labels())]
        model = gw.MoEClassifier(experts, gates=["linear"], random_state=0, settings=QUICK).fit(X, y)
        assert model.classes_.tolist() == ["a", "b", "rare"]
        assert (model.predict_proba(X) > 0).all()
        assert model.score(X, y) > 0.8

    @pytest.mark.parametrize(
        "labels", [(3, 7), (False, True), (1.0, 2.0), ("a", "b")], ids=["int", "bool", "float", "text"]
    )
    def test_labels_that_are_objects(self, labels):
        X = np.random.default_rng(0).normal(size=(40, 2))
        y = np.array(labels, dtype=object)[(X[:, 0] > 0).astype(int)]
        model = gw.MoEClassifier(PLAIN, gates="linear", settings=replace(BARE, test=False)).fit(X, y)
        assert model.classes_.tolist() == list(labels)
        assert model.score(X, y) > 0.8
        assert gw.SelectorClassifier(PLAIN, random_state=0).fit(X, y).score(X, y) > 0.6

    def test_experts_of_one_kind_become_different_ones(self):
        rng = np.random.default_rng(0)
        X = rng.uniform(-1, 1, (400, 2))
        y = rng.uniform(size=400) < expit(6 * np.sign(X[:, 0]) * X[:, 1])
        for other in (LogisticRegression(), LinearSVC()):  # with probabilities, and with decisions only
            experts = [("a", LogisticRegression()), ("b", other)]
            settings = replace(BARE, specialize=2, test=False)
            model = gw.MoEClassifier(experts, gates="linear", random_state=0, settings=settings).fit(X, y)
            errors = [stage.error for stage in model.history_]
            assert min(errors) < 0.85 * errors[0]
            assert model.held_out_scores_["model"].log_loss == pytest.approx(min(errors))  # the best is kept

    def test_specialization_needs_sample_weights(self, halves):
        X, y, _ = halves
        experts = [("knn", KNeighborsClassifier()), ("line", LogisticRegression())]
        with pytest.raises(ValueError, match="take sample_weight in fit; 'knn' does not"):
            gw.MoEClassifier(experts, settings=replace(BARE, specialize=1)).fit(X, y)


class TestBadInput:
    @pytest.mark.parametrize("kind", [gw.MoEClassifier, gw.SelectorClassifier])
    def test_a_regressor_is_no_classifier(self, kind):
        X = np.arange(8.0)[:, None]
        with pytest.raises(TypeError, match=r"'tree' is a regressor, and must be a classifier"):
            kind([("tree", DecisionTreeRegressor()), *PLAIN]).fit(X, [0, 1] * 4)

    @pytest.mark.parametrize("label", [b"a", ("a",)], ids=["bytes", "tuple"])
    def test_labels_of_no_plain_type(self, label):
        y = np.empty(4, dtype=object)
        y[:] = [label, label, label * 2, label * 2]
        with pytest.raises(ValueError, match=f"true and false, not {type(label).__name__}: make them text"):
            gw.MoEClassifier(PLAIN).fit(np.ones((4, 1)), y)

    def test_one_class(self):
        with pytest.raises(ValueError, match="one class"):
            gw.MoEClassifier(PLAIN).fit(np.ones((5, 1)), ["a"] * 5)
        with pytest.raises(ValueError, match=r"has one class, 0\.0$"):
            gw.MoEClassifier(PLAIN).fit(np.ones((5, 1)), np.zeros(5))

    def test_one_class_of_positive_weight(self, halves):
        X, y, _ = halves
        with pytest.raises(ValueError, match=r"one class among the rows of positive sample_weight, 'yes'$"):
            gw.MoEClassifier(PLAIN).fit(X, y, sample_weight=(y == "yes").astype(float))

    @pytest.mark.parametrize(
        ("name", "where"),
        [("model", "held_out_scores_"), ("convex stack", "held_out_scores_"), ("a (shared part)", "explain")],
    )
    def test_names_that_other_entries_have(self, halves, name, where):
        X, y, _ = halves
        with pytest.raises(ValueError, match=f"experts: .* is the name of another entry of {where}"):
            gw.MoEClassifier([(name, GaussianNB()), *PLAIN]).fit(X, y)

    def test_a_regression_target(self, halves):
        X, _, truth = halves
        with pytest.raises(
            ValueError, match=r"continuous.* MoEClassifier is for classes, and MoERegressor for numbers"
        ):
            gw.MoEClassifier(PLAIN).fit(X, truth)

    def test_missing_labels(self, halves):
        X, _, _ = halves
        with pytest.raises(ValueError, match="row 1"):
            gw.MoEClassifier(PLAIN).fit(X[:3], np.array(["a", None, "b"], dtype=object))

    @pytest.mark.parametrize(
        ("value", "total", "words"), [(np.nan, 1.0, "finite"), (1.4, 1.0, "sum one"), (0.5, 1.3, "with sum 1.3")]
    )
    def test_probabilities_that_are_none(self, halves, value, total, words):
        X, y, _ = halves
        experts = [("bad", ColumnProbability(value=value, total=total)), *PLAIN]
        with pytest.raises(ValueError, match=words) as error:
            gw.MoEClassifier(experts).fit(X, y)
        assert "'bad'" in "".join(error.value.__notes__)

    @pytest.mark.parametrize(("value", "words"), [(np.nan, "row 77 has others"), (1.4, "row 77 is .* with sum 1")])
    def test_a_bad_probability_is_named_by_its_row_of_all_rows(self, halves, value, words):
        y = halves[1]
        P = np.full((len(y), 1), 0.5)
        P[77] = value
        with pytest.raises(ValueError, match=words) as error:
            gw.MoEClassifier([("bad", ColumnProbability(0)), ("prior", DummyClassifier())]).fit(P, y)
        assert "'bad'" in "".join(error.value.__notes__)
        assert str(pickle.loads(pickle.dumps(error.value))) == str(error.value)

    def test_shared_experts_are_refused_in_words(self, halves):
        X, y, _ = halves
        model = clone(gw.MoEClassifier(PLAIN, shared=[("rest", GaussianNB())]))
        assert model.get_params()["shared"][0][0] == "rest"
        with pytest.raises(ValueError, match=r"shared must be empty, not \['rest'\]: nothing may be added to a prob"):
            model.fit(X, y)
        with pytest.raises(TypeError, match="shared must be a list"):
            gw.MoEClassifier(PLAIN, shared=GaussianNB()).fit(X, y)
        model.set_params(shared=[], settings=BARE).fit(X[:60], y[:60])


@pytest.mark.slow
def test_a_gate_is_learned_where_it_is_the_truth():
    """With a gate as truth, n = 1,000, the excess log loss is at most half of the best stack's."""
    excess = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        Z = rng.normal(size=(3000, 2))
        P = expit(rng.normal(scale=1.5, size=(3000, 3)))
        gate = np.exp(3 * Z @ np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]]))
        truth = (gate / gate.sum(axis=1, keepdims=True) * P).sum(axis=1)
        y = (rng.uniform(size=3000) < truth).astype(int)
        X = np.column_stack([Z, P])
        experts = [ColumnProbability(column) for column in (2, 3, 4)]
        model = gw.MoEClassifier(experts, cv="prefit", random_state=0)
        model.experts = [one.fit(X, y) for one in experts]
        p = model.fit(X[:1000], y[:1000]).predict_proba(X[1000:])[:, 1]
        stack = model.expert_probabilities(X[1000:])[:, :, 1] @ model.stack_weights_
        t = truth[1000:]
        kl = [np.mean(t * np.log(t / q) + (1 - t) * np.log((1 - t) / (1 - q))) for q in (p, stack)]
        excess.append(kl)
    ours, stacks = np.mean(excess, axis=0)
    assert ours < 0.5 * stacks
