"""The console in a real browser, and the API under requests that a program makes up."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quorate import Servers, mesh
from quorate.messaging import Session
from quorate.server.config.servers import HTTP_SERVICE

from .api_client import ApiClient
from .foreign_clients import cluster, daemons, running, service_ports
from .running import BOUND_S, until

pytestmark = pytest.mark.processes

PAGES = (
    *("", "servers", "agents", "queues", "topics", "transactions", "groups", "timers", "dead-letters"),
    "traces",
)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Servers]:
    with running(tmp_path, cluster("HttpService", "orders", "done")) as found:
        yield found


class Browser:
    """Chromium, without a window."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, port: int, page: str = "") -> None:
        self.driver.get(f"http://127.0.0.1:{port}/console/#/{page}")

    def wait(self, condition: Callable[[], Any], what: str) -> Any:
        from selenium.common.exceptions import StaleElementReferenceException
        from selenium.webdriver.support.ui import WebDriverWait

        waiting = WebDriverWait(self.driver, BOUND_S, ignored_exceptions=[StaleElementReferenceException])
        return waiting.until(lambda _: condition(), what)

    def text(self) -> str:
        return str(self.driver.execute_script("return document.body.innerText"))

    def until_shows(self, *texts: str) -> None:
        self.wait(lambda: all(each in self.text() for each in texts), f"the page shows {texts}")

    def find(self, selector: str) -> Any:
        return self.wait(
            lambda: self.driver.find_elements("css selector", selector), f"the page has {selector}"
        )[0]

    def press(self, text: str) -> None:
        def pressed() -> bool:
            for each in self.driver.find_elements("tag name", "button"):
                if each.text == text and each.is_enabled() and each.is_displayed():
                    each.click()
                    return True
            return False

        self.wait(pressed, f"the page has a button {text}")

    def login(self, user: str = "root", password: str = "root") -> None:
        self.find("[name=user]").send_keys(user)
        self.find("[name=password]").send_keys(password)
        self.press("Log in")

    def errors(self) -> list[str]:
        return [each["message"] for each in self.driver.get_log("browser") if each["level"] == "SEVERE"]


@pytest.fixture
def browser() -> Iterator[Browser]:
    pytest.importorskip("selenium", reason="selenium is not installed")
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if program is None or driver is None:
        pytest.skip("there is no chromium with a chromedriver here")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for each in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1300,1000"):
        options.add_argument(each)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield Browser(made)
    finally:
        made.quit()


def master_port(servers: Servers) -> int:
    return service_ports(servers, HTTP_SERVICE)[servers.master()]


def test_every_page_is_shown_and_says_nothing_to_the_log_of_the_browser(
    servers: Servers, browser: Browser
) -> None:
    for port in (master_port(servers), service_ports(servers, HTTP_SERVICE)[(servers.master() + 1) % 3]):
        browser.open(port)
        browser.login()
        for page in PAGES:
            browser.open(port, page)
            browser.wait(lambda: browser.find("h1").text, "there is a heading")
            browser.wait(lambda: browser.find("#live").text, "the page shows something")
        refused = [each for each in browser.errors() if "409" not in each]
        assert not refused


def test_a_wrong_password_is_said_and_a_login_ends(servers: Servers, browser: Browser) -> None:
    browser.open(master_port(servers))
    browser.login(password="wrong")
    browser.until_shows("The user or the password is wrong.")
    browser.find("[name=user]").clear()
    browser.login()
    browser.until_shows("Overview", "Reactions in a second", "start-up")
    browser.press("Log out")
    browser.until_shows("Log in as an administrator")


def test_messages_are_shown_as_text_and_are_dropped_after_a_question(
    servers: Servers, browser: Browser
) -> None:
    with servers.connect("s0") as connection, Session(connection) as session:
        session.send("orders", "<img src=x onerror=alert(1)>")
        session.sync(BOUND_S)
    port = master_port(servers)
    browser.open(port, "queues/orders")
    browser.login()
    browser.until_shows("<img src=x onerror=alert(1)>")
    assert not browser.driver.find_elements("css selector", "#live img")
    browser.press("Drop the messages")
    browser.press("Cancel")
    assert ApiClient(port).login().get("/queues/orders")["depth"] == 1
    browser.press("Drop the messages")
    browser.press("Drop them")
    browser.until_shows("1 messages were dropped.")
    assert ApiClient(port).login().get("/queues/orders")["depth"] == 0


def test_a_queue_is_made_and_paused_with_the_keyboard_alone(servers: Servers, browser: Browser) -> None:
    from selenium.webdriver.common.keys import Keys

    port = master_port(servers)
    browser.open(port, "queues")
    browser.login()
    browser.until_shows("orders", "done")

    def tab_to(does: Callable[[Any], bool]) -> Any:
        for _ in range(60):
            browser.driver.switch_to.active_element.send_keys(Keys.TAB)
            found = browser.driver.switch_to.active_element
            if does(found):
                return found
        raise AssertionError(f"no tab leads there; the last was {found.text!r}")

    tab_to(lambda each: each.tag_name == "summary").send_keys(Keys.ENTER)
    browser.find("details[open]")
    tab_to(lambda each: each.tag_name == "input").send_keys("keyed", Keys.ENTER)
    browser.until_shows("The queue keyed was made.")
    tab_to(lambda each: each.tag_name == "a" and each.text == "keyed").send_keys(Keys.ENTER)
    browser.until_shows("Queue keyed", "goes on")
    tab_to(lambda each: each.text == "Pause the delivery").send_keys(Keys.ENTER)
    browser.until_shows("Resume the delivery")
    assert browser.driver.switch_to.active_element.text == "Resume the delivery", "the focus stays"


def test_every_control_and_drawing_has_a_name(servers: Servers, browser: Browser) -> None:
    browser.open(master_port(servers))
    browser.login()
    nameless = """
        const named = (each) => each.innerText || each.getAttribute('aria-label') || each.labels?.length
          || each.querySelector('caption, title');
        return [...document.querySelectorAll('button, a, input, textarea, svg[role=img], [role=region]')]
          .filter((each) => each.checkVisibility() && !named(each)).map((each) => each.outerHTML)"""
    for page in PAGES:
        browser.open(master_port(servers), page)
        browser.wait(lambda: browser.find("#live").text, "the page shows something")
        assert browser.driver.execute_script(nameless) == []
    assert browser.driver.execute_script("return document.documentElement.lang") == "en"


def test_the_console_follows_a_failover(servers: Servers, browser: Browser) -> None:
    slave = (servers.master() + 1) % 3
    browser.open(service_ports(servers, HTTP_SERVICE)[slave])
    browser.login()
    browser.until_shows(f"s0.{slave}, slave")
    servers.kill_master()
    browser.until_shows("down", "no answer")


def make_up_requests(port: int) -> None:
    """Have requests made up from the description of the API, and every answer held against it."""
    program = shutil.which("schemathesis")
    if program is None:
        pytest.skip("there is no command schemathesis here")
    token = ApiClient(port).login().token
    words = ["run", f"http://127.0.0.1:{port}/api/v1/openapi.json", "-H", f"Authorization: Bearer {token}"]
    # These end the replica or the login under test.
    excluded = ["--exclude-path-regex", "replica/(stop|restart)|/session"]
    done = subprocess.run(
        [program, *words, *excluded, "--max-examples", "20", "--no-color", "--seed", "7"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]


def test_the_api_survives_requests_that_are_made_up(servers: Servers) -> None:
    make_up_requests(master_port(servers))


def test_the_api_of_a_daemon_survives_requests_that_are_made_up(tmp_path: Path) -> None:
    with running(tmp_path, daemons()) as servers:
        make_up_requests(service_ports(servers, HTTP_SERVICE, "m0")[0])


def test_a_mesh_has_its_daemons_topics_and_subscriptions(tmp_path: Path, browser: Browser) -> None:
    with (
        running(tmp_path, daemons()) as servers,
        mesh.connect(servers.url("m0"), user="root", password="root") as client,
    ):
        ports = service_ports(servers, HTTP_SERVICE, "m0")
        browser.open(ports[0], "mesh")
        browser.login()
        browser.until_shows("The daemons, as this one knows them", "Reaches", "0, 1, 2")
        browser.find("[name=topic]").send_keys("prices")
        browser.press("Create")
        browser.until_shows("Topic prices was created.", "publishers are refused")
        until(client.topics)
        with client.subscribe("prices", name="audit"):
            browser.until_shows("audit")
        servers.kill("m0", 2)
        browser.until_shows("not reached")
        browser.open(ports[0])
        browser.until_shows("Daemons that it reaches", "m0.0 does not reach daemon 2.")
        menu = browser.find("#nav").text.split()
        assert menu == ["Overview", "Servers", "Mesh", "Traces"]
        browser.open(ports[0], "mesh")
        browser.press("Delete")
        browser.find("#asked-yes").click()
        browser.until_shows("Topic prices was deleted.")
        assert not browser.errors()
