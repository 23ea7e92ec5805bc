"""Prices, wages, budgets and firms."""

from benchmarks.real.datasets import DataSet

_AFTER_THE_LOAN = "known only after the interest rate"
_IN_1980 = "measured in 1980, years after the wage"

ECONOMY: tuple[DataSet, ...] = (
    DataSet("AER", "CPS1988", "wage", source="current-population-survey", log=True),
    DataSet(
        "ISLR",
        "Wage",
        "logwage",
        source="current-population-survey",
        drops={"wage": "logwage is its logarithm", "region": "constant"},
    ),
    DataSet("Ecdat", "Wages", "lwage", source="psid"),
    DataSet(
        "Ecdat",
        "Griliches",
        "lw",
        source="nls-young-men",
        drops={
            "lw80": "the same quantity later",
            **dict.fromkeys(("rns80", "mrt80", "smsa80", "age80", "school80", "expr80", "tenure80"), _IN_1980),
        },
    ),
    DataSet("openintro", "acs12", "income", source="american-community-survey"),
    DataSet("ISLR", "Hitters", "Salary", source="baseball-1986", log=True),
    DataSet(
        "wooldridge", "k401ksubs", "nettfa", source="sipp-1991", drops={"incsq": "inc again", "agesq": "age again"}
    ),
    DataSet("Ecdat", "BudgetFood", "wfood", source="spanish-budgets"),
    DataSet("Ecdat", "VietNamI", "lnhhexp", source="vietnam-living-standards", codes=("commune",)),
    DataSet("Ecdat", "Computers", "price", source="pc-prices", log=True),
    DataSet("modeldata", "car_prices", "Price", source="kelley-blue-book", log=True),
    DataSet("ggplot2", "diamonds", "price", source="diamonds-se", log=True),
    DataSet(
        "modeldata",
        "hotel_rates",
        "avg_price_per_room",
        source="hotel-bookings",
        drops={"arrival_date_num": "arrival_date once more"},
        dates=("arrival_date",),
    ),
    DataSet(
        "wooldridge",
        "airfare",
        "lfare",
        source="us-airfares",
        drops={
            "fare": "lfare is its logarithm",
            "id": "identifies the route",
            "ldist": "dist once more",
            "ldistsq": "dist once more",
            "lpassen": "passen once more",
            "concen": "bmktshr once more",
            **dict.fromkeys(("y98", "y99", "y00"), "year once more"),
        },
    ),
    DataSet(
        "ggplot2",
        "txhousing",
        "median",
        source="texas-real-estate",
        log=True,
        drops={"volume": "sales times the mean price"},
    ),
    DataSet("mosaicData", "SaratogaHouses", "price", source="saratoga-houses", log=True),
    DataSet("modeldata", "ames", "Sale_Price", source="ames-houses", log=True),
    DataSet("AER", "HousePrices", "price", source="windsor-houses", log=True),
    DataSet("MASS", "Boston", "medv", source="boston-houses"),
    DataSet(
        "openintro",
        "loans_full_schema",
        "interest_rate",
        source="lending-club",
        drops={
            "emp_title": "free text",
            "grade": "decides the interest rate",
            "sub_grade": "decides the interest rate",
            "installment": "computed from the interest rate",
            "num_accounts_120d_past_due": "constant",
            **dict.fromkeys(
                ("loan_status", "balance", "paid_total", "paid_principal", "paid_interest", "paid_late_fees"),
                _AFTER_THE_LOAN,
            ),
        },
    ),
    DataSet(
        "HSAUR",
        "Forbes2000",
        "marketvalue",
        source="forbes-2000",
        log=True,
        drops={"name": "names the firm", "rank": "computed from marketvalue, sales, profits and assets"},
    ),
    DataSet(
        "plm",
        "RiceFarms",
        "goutput",
        source="indonesian-rice-farms",
        log=True,
        drops={"noutput": "goutput less the harvest's cost", "id": "identifies the farm"},
    ),
    DataSet("Ecdat", "Cigar", "sales", source="us-cigarettes", codes=("state",)),
    DataSet(
        "Ecdat",
        "Produc",
        "unemp",
        source="us-state-production",
        drops={"pcap": "the sum of hwy, water and util"},
    ),
    DataSet("ISLR", "Carseats", "Sales", source="islr-carseats-simulated"),
)
