"""Sentences for XML that is not well-formed, in place of the parser's messages."""

import re
from collections.abc import Callable

_SENTENCES: tuple[tuple[str, str, Callable[[re.Match[str]], str]], ...] = (
    (
        "ERR_TAG_NAME_MISMATCH",
        r"mismatch: (\S+) line (\d+) and (\S+)",
        lambda m: f"<{m[1]}> of line {m[2]} is closed by </{m[3]}>; write </{m[1]}> before it.",
    ),
    (
        "ERR_TAG_NOT_FINISHED",
        r"in tag (\S+) line (\d+)",
        lambda m: f"<{m[1]}> of line {m[2]} is never closed.",
    ),
    (
        "UNDECLARED_ENTITY",
        r"Entity '(.+)' not defined",
        lambda m: f"&{m[1]}; is not defined; only &amp; &lt; &gt; &quot; &apos; and &#number; can be used.",
    ),
    (
        "ERR_ATTRIBUTE_REDEFINED",
        r"Attribute (\S+)",
        lambda m: f"the attribute {m[1]} is given twice; keep one.",
    ),
    ("ERR_ATTRIBUTE_NOT_STARTED", "", lambda _: 'the value of an attribute must be in quotes: name="value".'),
    (
        "ERR_ATTRIBUTE_WITHOUT_VALUE",
        r"attribute (\S+)",
        lambda m: f'the attribute {m[1]} has no value; write {m[1]}="...".',
    ),
    (
        "ERR_LT_IN_ATTRIBUTE",
        "",
        lambda _: "a value holds '<', or its closing quote is missing; write &lt; for '<'.",
    ),
    ("ERR_ENTITYREF_SEMICOL_MISSING", "", lambda _: "a lone '&' is not allowed; write &amp; for '&'."),
    ("ERR_NAME_REQUIRED", "EntityRef", lambda _: "a lone '&' is not allowed; write &amp; for '&'."),
    ("ERR_HYPHEN_IN_COMMENT", "", lambda _: "'--' is not allowed inside a comment."),
    ("ERR_COMMENT_NOT_FINISHED", "", lambda _: "a comment is never closed; end it with '-->'."),
    ("ERR_DOCUMENT_EMPTY", "", lambda _: "this is not XML; the file must hold a <config> element."),
    (
        "ERR_DOCUMENT_END",
        "",
        lambda _: "something follows the closing tag of the root; there must be one <config>.",
    ),
    (
        "ERR_RESOURCE_LIMIT",
        "",
        lambda _: "elements are nested too deeply, or entities expand too much; use neither.",
    ),
    (
        "ERR_GT_REQUIRED",
        "",
        lambda _: "a tag is not finished: '>' is missing; the file may have been cut off.",
    ),
    ("ERR_CDATA_NOT_FINISHED", "", lambda _: "a CDATA section is never closed; end it with ']]>'."),
    ("ERR_UNKNOWN_VERSION", "", lambda _: 'the version of XML is not known; write <?xml version="1.0"?>.'),
    (
        "ERR_NAME_REQUIRED",
        "StartTag",
        lambda _: "'<' is not followed by the name of an element; the file must hold a <config> element.",
    ),
    ("ERR_ENTITY_LOOP", "", lambda _: "entities are not supported; write the text itself."),
    (
        "ERR_UNSUPPORTED_ENCODING",
        r"encoding:? (?!detecting)(\S+)",
        lambda m: f"the encoding {m[1]} is not known; save the file as UTF-8.",
    ),
    ("ERR_UNSUPPORTED_ENCODING", "", lambda _: "the encoding is not known; save the file as UTF-8."),
    (
        "ERR_INVALID_ENCODING",
        "",
        lambda _: "the text is not in the encoding the file declares (UTF-8 if none); save it as UTF-8.",
    ),
    ("ERR_INVALID_CHAR", "", lambda _: "a character is not allowed in XML; remove it."),
    (
        "NS_ERR_UNDEFINED_NAMESPACE",
        r"prefix (\S+)",
        lambda m: f"the prefix {m[1]}: is not defined; element names here have none.",
    ),
)


def syntax_sentence(kind: str, message: str) -> str:
    """Return one sentence for an error of libxml2, from the name of its kind and its text."""
    for suffix, pattern, sentence in _SENTENCES:
        if kind.endswith(suffix) and (match := re.search(pattern, message)):
            return sentence(match)
    return f"the file is not well-formed XML: {message.strip().rstrip('.')}."
