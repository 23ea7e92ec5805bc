"""Classes of tokens that any text has: words, parts of words, numbers, punctuation, space."""

from collections.abc import Iterable

KINDS = ("word", "inside a word", "number", "punctuation", "space")


def token_kinds(texts: Iterable[str]) -> list[str]:
    """The class of every token by its text; a token that begins with a space or a capital begins a word.

    >>> token_kinds([" the", "ing", "42", "(", "\\n  "])
    ['word', 'inside a word', 'number', 'punctuation', 'space']
    """
    return [_kind(text) for text in texts]


def _kind(text: str) -> str:
    body = text.strip()
    if not body:
        return "space"
    if any(letter.isdigit() for letter in body):
        return "number"
    if not any(letter.isalpha() for letter in body):
        return "punctuation"
    return "word" if text[0].isspace() or body[0].isupper() else "inside a word"
