"""Text and data attributes made safe for HTML."""

from __future__ import annotations

import html


def escape(text: object) -> str:
    """Text made safe for HTML; control characters and lone surrogates become visible signs."""
    signs = (chr(0x2400 + ord(c)) if c < " " and c not in "\n\t" else c for c in str(text))
    return html.escape("".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in signs))


def attributes(keys: dict) -> str:
    """`data-…` attributes by which the page filters."""
    return "".join(f' data-{key}="{escape(value)}"' for key, value in keys.items())
