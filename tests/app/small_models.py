"""Small tables and a fitted model with names that a page must not take for markup."""

from functools import cache

import numpy as np

HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "$x^2$ & {{7*7}}", "`</style><b>")
TARGET = "price <b>&amp;</b>"


def make_frame(n=160, seed=0, names=HOSTILE):
    """A table with categories and missing values; on the left one formula holds, on the right another."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    a, b = rng.uniform(-2, 2, (2, n))
    text = rng.choice(["<i>red</i>", "blue", None], n, p=[0.4, 0.4, 0.2])
    known = np.where(rng.random(n) < 0.1, np.nan, b)
    truth = np.where(a < 0, 3 * b, np.sin(4 * b))
    columns = {names[0]: a, names[1]: known, names[2]: text, names[3]: truth + rng.normal(size=n)}
    return pd.DataFrame({**columns, TARGET: truth + 0.2 * rng.normal(size=n)})


@cache
def saved_model():
    """A model of three experts with hostile names, fitted to `make_frame`."""
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.tree import DecisionTreeRegressor

    from gatewise import MoERegressor, MoESettings
    from gatewise.app.models import default_pool as pool
    from gatewise.app.models import fitting, tables
    from gatewise.experts import ColumnExpert

    table = tables.training_table(make_frame(), TARGET)
    numbers, text = pool.numeric_columns(table.X), pool.text_columns(table.X)
    experts = [
        ('line "><img src=x onerror=alert(3)>', make_pipeline(pool.scaled_inputs(numbers, text), Ridge())),
        ("<script>alert(4)</script>", ColumnExpert(HOSTILE[3])),
        ("tree", make_pipeline(pool.ordinal_inputs(numbers, text, missing=-1), DecisionTreeRegressor(max_depth=4))),
    ]
    settings = MoESettings(spreads=(1.0, 3.0), n_orders=2, learners=("forest", "products"))
    model = MoERegressor(experts, gates=("linear", "quadratic"), k=None, random_state=0, settings=settings)
    return fitting.fit_table(model, table, fitting.run_trial(model, table, 0.2, 0))
