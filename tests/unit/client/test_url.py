import pytest

from quorate.client.errors import BadUrl
from quorate.client.url import format_endpoint, parse_url, url_tls
from quorate.tls import TlsFiles


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
        ("quorate://a:1?ca=ca.pem", "write it as quorates://"),
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


def test_a_url_with_tls_names_its_files(certificates):
    anna, ca = certificates.client("anna"), certificates.path("ca")
    url = f"quorates://a:1,b:2/?ca={ca}&certificate={anna.certificate}&key={anna.key}"
    assert parse_url(url) == (("a", 1), ("b", 2))
    assert url_tls(url) == TlsFiles(anna.certificate, anna.key, ca)
    assert url_tls("quorates://a:1") == TlsFiles()
    assert url_tls("quorate://a:1") is None


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("cafile=x", "give ca, certificate and key"),
        ("ca=", "give ca, certificate and key"),
        ("ca=/nowhere/ca.pem", "/nowhere/ca.pem cannot be read"),
        ("key=k.pem", "given together"),
    ],
)
def test_files_of_a_url_that_cannot_be_used_are_an_error_of_one_sentence(words, text):
    with pytest.raises(BadUrl, match=text):
        url_tls(f"quorates://a:1?{words}")
