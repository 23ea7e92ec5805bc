"""Finished pieces of a long run, kept on disk: an interrupted run goes on where it stopped."""

import json
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

_SELECT = "SELECT record FROM records WHERE key = ?"


def record_key(**names: Any) -> str:
    """What identifies a piece of work, as text that does not depend on the order of the names.

    >>> record_key(n=200, design="linear")
    '{"design": "linear", "n": 200}'
    """
    return json.dumps(names, sort_keys=True)


class Store:
    """JSON records by key, in one SQLite file; every record is written whole or not at all.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     store = Store(Path(folder) / "runs.sqlite")
    ...     store.put(record_key(n=200), {"l1": 0.1})
    ...     Store(store.path).get(record_key(n=200))
    {'l1': 0.1}
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with closing(self._connect()) as database, database:
                database.execute("CREATE TABLE IF NOT EXISTS records (key TEXT PRIMARY KEY, record TEXT NOT NULL)")
        except sqlite3.DatabaseError as error:
            raise ValueError(f"{self.path} is not a store of results ({error}); remove it or name another") from error

    def get(self, key: str) -> Any:
        """The record of a key, or None."""
        return self.select([key]).get(key)

    def select(self, keys: Iterable[str]) -> dict[str, Any]:
        """The records of those keys that have one."""
        with closing(self._connect()) as database:
            rows = ((key, database.execute(_SELECT, (key,)).fetchone()) for key in keys)
            return {key: json.loads(found[0]) for key, found in rows if found is not None}

    def put(self, key: str, record: Mapping[str, Any]) -> None:
        """Keep a record; one that is there already is replaced."""
        with closing(self._connect()) as database, database:
            database.execute("INSERT OR REPLACE INTO records VALUES (?, ?)", (key, json.dumps(record)))

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.path, timeout=60)
