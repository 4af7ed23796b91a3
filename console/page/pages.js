// The pages: each has a path, a title, what it shows, and perhaps controls that stay while it is refreshed.
// `every`: milliseconds between two refreshes, for pages that ask agents, which costs entries of the log.

import { agent, agents, deadLetters, timers } from "./agents.js";
import { group, groups } from "./groups.js";
import { mesh } from "./mesh.js";
import { destination, destinations, transactions } from "./messaging.js";
import { overview, replica, servers, traces } from "./servers.js";

export const PAGES = [
  overview, servers, replica, agents, agent,
  destinations("queue"), destination("queue"), destinations("topic"), destination("topic"),
  transactions, groups, group, mesh, timers, deadLetters, traces,
];

const OF_ANY = ["", "servers", "traces"];

/** Return the pages of the menu for a server with a mode: a mesh has no agents, and only a mesh has daemons. */
export function menu(mode) {
  return PAGES.filter((each) => each.menu && (OF_ANY.includes(each.path) || (each === mesh) === (mode === "mesh")));
}

const MISSING = {
  path: "missing", still: true,
  title: () => "There is no such page",
  show: async () => ["Choose a page from the list above."],
};

/** Return the page for the fragment of an address, and its arguments. */
export function find(fragment) {
  let parts;
  try {
    parts = fragment.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  } catch {
    return { page: MISSING, args: [] };
  }
  for (const page of PAGES) {
    const wanted = page.path.split("/");
    if (wanted.length === parts.length && wanted.every((each, at) => each === ":" ? parts[at] : each === parts[at])) {
      return { page, args: parts.filter((_, at) => wanted[at] === ":") };
    }
  }
  return { page: MISSING, args: [] };
}
