// The frame of the console: login, pages by the fragment of the address, refreshing, notices.

import { ApiProblem, call, get, keepToken, post, token } from "./api.js";
import { el } from "./dom.js";
import { find, menu } from "./pages.js";

const REFRESH_MS = 2000;
const main = document.getElementById("main");
const head = document.getElementById("head");
let turn = 0;
let timer = 0;
let who = null;

const theme = {
  get() { return localStorage.getItem("quorate-theme") || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"); },
  show() {
    document.documentElement.dataset.theme = this.get();
    document.getElementById("theme").textContent = this.get() === "dark" ? "Light" : "Dark";
  },
  flip() { localStorage.setItem("quorate-theme", this.get() === "dark" ? "light" : "dark"); this.show(); },
};

function notice(text, bad = false) {
  const line = el("p", { class: bad ? "bad" : "" }, text);
  document.getElementById("notice").append(line);
  setTimeout(() => line.remove(), bad ? 12000 : 5000);
}

/** Ask whether to go on; fires with true or false. */
function confirmed(question, verb) {
  const dialog = document.getElementById("ask");
  document.getElementById("asked").textContent = question;
  document.getElementById("asked-yes").textContent = verb;
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }));
}

function problem(error) {
  if (!(error instanceof ApiProblem)) throw error;
  const where = error.master ? [" ", el("a", { href: `${error.master}/console/${location.hash}` }, "Go to the console of the master.")] : [];
  return el("p", { class: "problem", role: "alert" }, error.message, ...where);
}

function login(text = "") {
  turn += 1;
  clearTimeout(timer);
  head.hidden = true;
  who = null;
  const user = el("input", { name: "user", autocomplete: "username", required: true });
  const password = el("input", { name: "password", type: "password", autocomplete: "current-password" });
  const said = el("p", { class: text ? "bad" : "", role: "alert" }, text);
  const form = el("form", { class: "box login" },
    el("h1", {}, "Quorate"), el("p", { class: "soft" }, "Log in as an administrator, or give a token as the password and no user."),
    el("label", {}, "User", user), el("label", {}, "Password or token", password), said,
    el("button", { class: "main" }, "Log in"));
  user.required = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      keepToken("");
      keepToken(user.value ? (await post(["session"], { user: user.value, password: password.value })).token : password.value);
      await begin();
    } catch (error) {
      keepToken("");
      said.className = "bad";
      said.textContent = error.message;
      password.value = "";
      password.focus();
    }
  });
  main.replaceChildren(form);
  document.title = "Log in – Quorate";
  user.focus();
}

async function begin() {
  who = await get(["session"]);
  head.hidden = false;
  document.getElementById("who").textContent = who.read_only ? `${who.user}, may only read` : who.user;
  route();
}

function frame(replica) {
  const where = document.getElementById("where");
  where.textContent = `${replica.server}.${replica.replica}, ${replica.role}`;
  const current = find(location.hash).page;
  document.getElementById("nav").replaceChildren(el("ul", {}, menu(replica.mode).map((each) =>
    el("li", {}, el("a", { href: `#/${each.path}`, "aria-current": each.path.split("/")[0] === current.path.split("/")[0] ? "page" : undefined }, each.menu)))));
}

function route() {
  const { page, args } = find(location.hash);
  turn += 1;
  clearTimeout(timer);
  const title = page.title(...args);
  const live = el("div", { id: "live" });
  const heading = el("h1", { tabIndex: -1 }, title);
  const context = {
    args, who, may: !who.read_only, notice, confirmed,
    refresh: () => refresh(page, context, live, turn),
    async act(does, what) {
      try {
        const result = await does();
        notice(typeof what === "function" ? what(result) : what);
        await refresh(page, context, live, turn);
        return true;
      } catch (error) {
        if (!(error instanceof ApiProblem)) throw error;
        notice(error.message, true);
        return false;
      }
    },
  };
  const controls = page.controls ? page.controls(context) : [];
  main.replaceChildren(heading, ...controls, live);
  document.title = `${title} – Quorate`;
  heading.focus({ preventScroll: true });
  refresh(page, context, live, turn);
}

async function refresh(page, context, live, mine) {
  clearTimeout(timer);
  let shown;
  try {
    const replica = await get(["replica"]);
    if (mine !== turn) return;
    frame(replica);
    shown = await page.show({ ...context, replica, leads: replica.role === "master" && replica.serving });
  } catch (error) {
    if (error instanceof ApiProblem && error.code === "login-required") {
      if (mine === turn) { keepToken(""); login("The login has ended; log in again."); }
      return;
    }
    shown = [problem(error)];
  }
  if (mine !== turn) return;
  const key = document.activeElement?.dataset?.key;
  const scrolls = [...live.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
  const busy = live.contains(document.activeElement) && ["INPUT", "TEXTAREA", "SELECT"].includes(document.activeElement.tagName);
  if (!busy && !document.getElementById("ask").open) {
    live.replaceChildren(...shown.flat(3).filter((each) => each));
    [...live.querySelectorAll(".scroll")].forEach((each, at) => { each.scrollLeft = scrolls[at] || 0; });
    if (key) live.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
  }
  if (!page.still) timer = setTimeout(() => refresh(page, context, live, mine), page.every || REFRESH_MS);
}

document.getElementById("theme").addEventListener("click", () => theme.flip());
document.getElementById("leave").addEventListener("click", async () => {
  try { await call("DELETE", ["session"]); } catch (error) { if (!(error instanceof ApiProblem)) throw error; }
  keepToken("");
  login();
});
addEventListener("hashchange", () => { if (who) route(); });
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
theme.show();
if (token()) begin().catch((error) => { keepToken(""); login(error.code === "login-required" ? "" : error.message); });
else login();
