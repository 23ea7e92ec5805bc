"""Two suites of data sets: the named ones of the benchmark, and others for developing an estimator."""

from benchmarks.real.datasets import DataSet

NAMED: tuple[DataSet, ...] = (
    DataSet("mosaicData", "Birthdays", "births", dates=("date",)),
    DataSet(
        "nycflights13",
        "weather",
        "temp",
        drops={"dewp": "with humid it gives temp", "year": "constant"},
        dates=("time_hour",),
    ),
    DataSet("AER", "CPS1988", "wage", log=True),
    DataSet("Ecdat", "VietNamI", "lnhhexp", codes=("commune",)),
    DataSet("Ecdat", "BudgetFood", "wfood"),
    DataSet(
        "modeldata",
        "hotel_rates",
        "avg_price_per_room",
        drops={"arrival_date_num": "arrival_date once more"},
        dates=("arrival_date",),
    ),
    DataSet("ggplot2", "diamonds", "price", log=True),
    DataSet("ggplot2", "txhousing", "median", log=True, drops={"volume": "sales times the mean price"}),
    DataSet("mlmRev", "Hsb82", "mAch", codes=("school",)),
    DataSet("Ecdat", "Computers", "price", log=True),
    DataSet("modeldata", "Chicago", "ridership", dates=("date",)),
    DataSet("wooldridge", "airfare", "lfare", drops={"fare": "lfare is its logarithm", "id": "identifies the route"}),
    DataSet("mosaicData", "SaratogaHouses", "price", log=True),
    DataSet("datasets", "quakes", "mag"),
    DataSet("ISLR", "College", "Grad.Rate"),
    DataSet("ISLR", "Carseats", "Sales"),
    DataSet(
        "modeldata",
        "meats",
        "protein",
        drops={"water": "a part of the same whole", "fat": "a part of the same whole"},
    ),
    DataSet("ISLR", "Hitters", "Salary", log=True),
    DataSet("ISLR", "Auto", "mpg", drops={"name": "names the car"}, codes=("origin",)),
    DataSet("ISLR", "Wage", "logwage", drops={"wage": "logwage is its logarithm", "region": "constant"}),
    DataSet("ggplot2", "mpg", "hwy", drops={"cty": "the same measurement in the city", "model": "names the car"}),
    DataSet("MASS", "Boston", "medv"),
    DataSet("carData", "Prestige", "prestige", drops={"census": "the code of the occupation, an identifier"}),
    DataSet("datasets", "airquality", "Ozone"),
)

_RATINGS = {f"r{i}": "a part of the distribution that rating is the mean of" for i in range(1, 11)}
_AFTER_THE_LOAN = "known only after the interest rate"

DEVELOPMENT: tuple[DataSet, ...] = (
    DataSet("modeldata", "ames", "Sale_Price", log=True),
    DataSet("modeldata", "concrete", "compressive_strength"),
    DataSet("modeldata", "deliveries", "time_to_delivery"),
    DataSet(
        "dplyr",
        "storms",
        "wind",
        drops={
            "name": "names the storm",
            "status": "defined by the wind",
            "category": "defined by the wind",
            "tropicalstorm_force_diameter": "positive exactly from a speed of the wind on",
            "hurricane_force_diameter": "positive exactly from a speed of the wind on",
        },
    ),
    DataSet(
        "openintro",
        "loans_full_schema",
        "interest_rate",
        drops={
            "emp_title": "free text",
            "grade": "decides the interest rate",
            "sub_grade": "decides the interest rate",
            "installment": "computed from the interest rate",
            **dict.fromkeys(
                ("loan_status", "balance", "paid_total", "paid_principal", "paid_interest", "paid_late_fees"),
                _AFTER_THE_LOAN,
            ),
        },
    ),
    DataSet("AER", "HousePrices", "price", log=True),
    DataSet("ggplot2movies", "movies", "rating", drops={"title": "names the film", **_RATINGS}),
    DataSet("gapminder", "gapminder", "lifeExp"),
    DataSet("palmerpenguins", "penguins", "body_mass_g"),
    DataSet("robustbase", "ambientNOxCH", "ad", log=True, dates=("date",)),
    DataSet(
        "plm",
        "RiceFarms",
        "goutput",
        log=True,
        drops={"noutput": "goutput less the harvest's cost", "id": "identifies the farm"},
    ),
    DataSet("wooldridge", "gpa2", "colgpa"),
    DataSet(
        "nlme",
        "bdf",
        "langPOST",
        drops={
            "pupilNR": "identifies the pupil",
            "classNR": "the school once more",
            "aritPOST": "a test of the same day",
        },
        codes=("schoolNR", "denomina"),
    ),
    DataSet(
        "ratdat",
        "complete",
        "weight",
        drops={"record_id": "identifies the record", "species": "species_id once more"},
        codes=("plot_id",),
    ),
)

SUITES: dict[str, tuple[DataSet, ...]] = {"named": NAMED, "development": DEVELOPMENT}


def select(suite: str = "named", only: str | None = None) -> tuple[DataSet, ...]:
    """The data sets of a suite, or the one of that name.

    >>> [chosen.target for chosen in select("named", only="quakes")]
    ['mag']
    """
    if suite not in SUITES:
        raise ValueError(f"suite must be one of {', '.join(SUITES)}, not {suite!r}")
    chosen = tuple(one for one in SUITES[suite] if only in (None, one.name))
    if not chosen:
        names = ", ".join(one.name for one in SUITES[suite])
        raise ValueError(f"only must name a data set of the suite {suite!r}, one of {names}, not {only!r}")
    return chosen
