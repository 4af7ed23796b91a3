"""What is wrong with the files of TLS, said before anything is connected."""

from datetime import UTC, datetime, timedelta

import pytest

from quorate.tls import TlsError, TlsFiles


def refusal(files: TlsFiles, now: datetime | None = None) -> str:
    with pytest.raises(TlsError) as caught:
        files.check(now)
    return str(caught.value)


def test_good_files_pass(certificates) -> None:
    certificates.server("oslo", "oslo.example").check()
    TlsFiles(authorities=certificates.path("ca")).check()
    TlsFiles().check()


def test_a_file_that_is_missing_or_has_no_certificate_is_named(certificates, tmp_path) -> None:
    files = certificates.server("oslo", "oslo.example")
    (tmp_path / "text").write_text("no certificate\n")
    assert refusal(TlsFiles(authorities=tmp_path / "gone")) == (
        f"{tmp_path / 'gone'} cannot be read: No such file or directory"
    )
    assert (
        refusal(TlsFiles(authorities=tmp_path / "text")) == f"{tmp_path / 'text'} has no certificate in PEM"
    )
    assert "has no private key in PEM" in refusal(TlsFiles(files.certificate, tmp_path / "text"))
    assert "give both" in refusal(TlsFiles(files.certificate))


def test_the_key_of_another_certificate_is_refused(certificates) -> None:
    files, other = certificates.server("oslo", "oslo"), certificates.server("bergen", "bergen")
    assert "is not that of the certificate" in refusal(TlsFiles(files.certificate, other.key))


def test_a_certificate_is_refused_before_and_after_its_time(certificates) -> None:
    files, now = certificates.server("oslo", "oslo", days=10), datetime.now(UTC)
    assert "has expired, on " in refusal(files, now + timedelta(days=11))
    assert "is not valid before " in refusal(files, now - timedelta(days=1))


def test_a_key_that_others_can_read_is_noticed(certificates) -> None:
    files = certificates.server("oslo", "oslo")
    assert not files.exposed
    files.key.chmod(0o644)
    assert files.exposed
