"""Settings as data: an annotated field gives a setting's type, range, default and help text, once for all uses.

Flags, TOML keys, Python arguments and the commented experiment file are all made from the fields of a `Schema`.
Nothing here imports torch, so that wrong flags are reported at once.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import msgspec
from typing_extensions import Self

from peerdescent._util.validation import described
from peerdescent.errors import InputError

LARGEST = 2**63 - 1
"""The largest number that a setting can be: what fits 64 bits."""
KINDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a text",
    dict: "a table",
}


def about(
    text: str, metavar: str = "", panel: str = "", parse: Callable[[object], Any] | None = None, **limits: Any
) -> msgspec.Meta:
    """What is known of a setting besides its type: help text, name of its value, help panel, limits.

    `parse` checks the value in place of type and limits, and returns what is kept and recorded.
    """
    return msgspec.Meta(description=text, extra={"metavar": metavar, "panel": panel, "parse": parse}, **limits)


class Setting(NamedTuple):
    """One field of a schema, as flags and documentation need it."""

    name: str
    type: Any
    """The bare type: int, float, bool, str, dict, tuple[str, …] or a Literal."""
    optional: bool
    default: Any
    meta: msgspec.Meta | None

    @property
    def help(self) -> str:
        """What the setting means."""
        return (self.meta.description or "") if self.meta else ""

    @property
    def metavar(self) -> str:
        """What help calls the value: its choices, or a letter."""
        if get_origin(self.type) is Literal:
            return "|".join(get_args(self.type))
        return str((self.meta.extra or {}).get("metavar", "")) if self.meta else ""

    @property
    def panel(self) -> str:
        """The group of settings that it belongs to."""
        return str((self.meta.extra or {}).get("panel", "")) if self.meta else ""

    @property
    def parse(self) -> Callable[[object], Any] | None:
        """What checks a value whose type and limits do not say all."""
        return (self.meta.extra or {}).get("parse") if self.meta else None

    @property
    def expected(self) -> str:
        """What a value must be, in words."""
        if get_origin(self.type) is Literal:
            return f"one of {', '.join(get_args(self.type))}"
        if get_origin(self.type) is tuple:
            return "a list of texts"
        return KINDS[self.type] + _limits(self.meta)


class Schema(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all settings: immutable, checked on construction.

    >>> class Example(Schema, frozen=True, kw_only=True):
    ...     rounds: Annotated[int, about("How many rounds.", ge=1)] = 3
    >>> Example(rounds=0)
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: rounds = 0: expected a whole number, at least 1.
    """

    def __post_init__(self) -> None:
        for setting in settings_of(type(self)):
            given = getattr(self, setting.name)
            value = checked(setting, given)
            if value is not given:
                msgspec.structs.force_setattr(self, setting.name, value)

    def replace(self, **changes: Any) -> Self:
        """The same settings with some of them changed, checked again."""
        return msgspec.structs.replace(self, **changes)

    def asdict(self) -> dict[str, Any]:
        """All settings by name."""
        return msgspec.structs.asdict(self)


def checked(setting: Setting, value: Any) -> Any:
    """The value, converted where nothing is lost; refused in one sentence if it does not fit."""
    if value is None and setting.optional:
        return None
    value = list(value) if isinstance(value, tuple) else value
    if not isinstance(value, (bool, int, float)) and hasattr(value, "__index__"):
        with contextlib.suppress(TypeError):  # an array has no value to index with, and is refused below
            value = operator.index(value)  # NumPy's integers
    if setting.parse is not None:
        return setting.parse(value)
    kind = Annotated[setting.type, setting.meta] if setting.meta else setting.type
    try:
        return msgspec.convert(value, kind)
    except Exception:  # not only msgspec's: methods of the value fail too, such as those of an array taken for a dict
        raise InputError(f"{setting.name} = {described(value)}: expected {setting.expected}.") from None


@functools.cache
def settings_of(schema: type[Schema]) -> tuple[Setting, ...]:
    """The fields of a schema, in the order of their definition."""
    found = []
    for field in msgspec.structs.fields(schema):
        default = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
        kind, optional, meta = _parts(field.type)
        found.append(Setting(field.name, kind, optional, default, meta))
    return tuple(found)


def _parts(annotation: Any) -> tuple[Any, bool, msgspec.Meta | None]:
    """A field's bare type, whether it may be None, and what is known of it."""
    optional, meta = False, None
    while True:
        origin, arguments = get_origin(annotation), get_args(annotation)
        if origin is Annotated:
            annotation, meta = arguments[0], next((a for a in arguments[1:] if isinstance(a, msgspec.Meta)), meta)
        elif type(None) in arguments:
            optional, annotation = True, next(a for a in arguments if a is not type(None))
        else:
            return dict if origin is dict else annotation, optional, meta


def _limits(meta: msgspec.Meta | None) -> str:
    """The range that a number must lie in, or how long a text may be, in words."""
    if meta is not None and meta.max_length is not None:
        return f" of at most {meta.max_length} characters"
    if meta is not None and meta.gt is not None:
        return f" greater than {meta.gt:g}" + (f" and less than {meta.lt:g}" if meta.lt is not None else "")
    if meta is None or meta.ge is None:
        return ""
    if meta.le is not None and meta.le != LARGEST:
        return f" in [{meta.ge:g}, {meta.le:g}]"
    return f", at least {meta.ge:g}"
