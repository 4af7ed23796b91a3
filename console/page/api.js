// Requests to the API of the replica that has served this page.

const BASE = "/api/v1";
const KEY = "quorate-token";

export class ApiProblem extends Error {
  constructor(details) {
    super(details.detail);
    this.code = details.code;
    this.status = details.status;
    this.master = details.master || "";
  }
}

export function token() {
  return sessionStorage.getItem(KEY) || "";
}

export function keepToken(text) {
  if (text) sessionStorage.setItem(KEY, text);
  else sessionStorage.removeItem(KEY);
}

/** Make a request; return its result. `path` is an array of parts, which are encoded here. */
export async function call(method, path, { query = {}, body } = {}) {
  const given = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== "" && value !== undefined));
  const url = `${BASE}/${path.map(encodeURIComponent).join("/")}${given.size ? `?${given}` : ""}`;
  const headers = {};
  if (token()) headers.authorization = `Bearer ${token()}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(url, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new ApiProblem({ status: 0, code: "unreachable", detail: "This replica does not answer; is it down?" });
  }
  if (answer.status === 204) return null;
  let found;
  try {
    found = await answer.json();
  } catch {
    throw new ApiProblem({ status: answer.status, code: "fault", detail: `The answer has status ${answer.status} and is no JSON.` });
  }
  if (!answer.ok) throw new ApiProblem(found);
  return found;
}

export const get = (path, query) => call("GET", path, { query });
export const post = (path, body) => call("POST", path, { body });
