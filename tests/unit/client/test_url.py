import pytest

from quorate.client.errors import BadUrl
from quorate.client.url import format_endpoint, parse_url


def test_a_url_names_replicas_in_order_and_each_once():
    url = "quorate://localhost:2560, far.example:2561,localhost:2560,[::1]:7/"
    assert parse_url(url) == (("localhost", 2560), ("far.example", 2561), ("::1", 7))


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://localhost:2560", "not the URL of a quorate server"),
        ("localhost:2560", "write it as quorate://host:port"),
        ("quorate://", "an empty part"),
        ("quorate://localhost", "'localhost' in the URL is not host:port"),
        ("quorate://localhost:2560,", "an empty part"),
        ("quorate://localhost:0", "port 0"),
        ("quorate://localhost:65536", "port 65536"),
        ("quorate://localhost:12x", "not host:port"),
        ("quorate://root:root@localhost:2560", "user="),
        ("quorate://::1:2560", "brackets"),
        ("quorate://a:1/b", "not host:port"),
    ],
)
def test_a_bad_url_is_an_error_of_one_sentence(url, text):
    with pytest.raises(BadUrl) as caught:
        parse_url(url)
    assert text in str(caught.value)
    assert "root:root" not in str(caught.value)


def test_an_ipv6_address_is_written_in_brackets():
    assert format_endpoint(("::1", 7)) == "[::1]:7"
    assert format_endpoint(("a", 7)) == "a:7"
