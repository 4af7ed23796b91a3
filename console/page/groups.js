// Groups of clients, and the clients of each replica.

import { get, post } from "./api.js";
import { badge, button, bytes, el, facts, number, table } from "./dom.js";

const NONE = 'Only a server with mode="group" has groups of clients.';

export const groups = {
  path: "groups", menu: "Groups", every: 10000,
  title: () => "Groups of clients",
  async show({ replica, may, act, leads }) {
    if (replica.mode !== "group") return [el("p", { class: "soft" }, NONE)];
    if (!leads) return [el("p", { class: "soft" }, "The master shows them."), masterLink(replica)];
    const [names, homes] = await Promise.all([get(["groups"]), get(["homes"])]);
    const found = await Promise.all(names.groups.slice(0, 100).map((each) => get(["groups", each])));
    return [
      table("Groups", [
        { title: "Group", cell: (row) => el("a", { href: `#/groups/${encodeURIComponent(row.title)}`, "data-key": row.title }, row.title) },
        { title: "Members", number: true, cell: (row) => row.members.length },
        { title: "Suspected", number: true, cell: (row) => row.members.filter((each) => each.suspected).length },
        { title: "View", number: true, cell: (row) => row.view }, { title: "Casts", number: true, cell: (row) => row.casts },
        { title: "Held items", number: true, cell: (row) => row.stored_items }, { title: "Held", number: true, cell: (row) => bytes(row.stored_bytes) },
      ], found),
      el("h2", {}, "Homes"),
      table("The clients of each replica", [
        { title: "Replica", number: true, cell: (row) => row.home }, { title: "Clients", number: true, cell: (row) => row.clients },
        { title: "Standing", cell: (row) => badge(row.standing, row.standing === "serves" ? "good" : "warn") },
        { title: "", cell: (row) => { const verb = row.standing === "drained" ? "undrain" : "drain"; return button(verb === "drain" ? "Drain" : "Let clients in", () => act(() => post(["homes", row.home, verb]), "It is done."),
          { disabled: !may, key: `home ${row.home}`, label: `${verb} replica ${row.home}` }); } },
      ], homes.homes),
    ];
  },
};

function masterLink(replica) {
  return replica.master_url ? el("p", {}, el("a", { href: `${replica.master_url}/console/${location.hash}` }, "Go to the console of the master.")) : "";
}

export const group = {
  path: "groups/:", every: 4000,
  title: (name) => `Group ${name}`,
  async show({ args: [name], may, act, confirmed }) {
    const found = await get(["groups", name]);
    const expel = (row) => async () => {
      if (await confirmed(`End the membership of ${row.label || row.id}?`, "Expel")) await act(() => post(["groups", name, "expel"], { member: row.id }), "The member is expelled.");
    };
    return [
      facts([["View", number(found.view)], ["Last item", number(found.last)], ["Casts", number(found.casts)], ["Held", `${number(found.stored_items)} items, ${bytes(found.stored_bytes)}`],
        ["Requests without an answer", number(found.requests)], ["Suspicions", `${number(found.suspicions)}, of which ${number(found.false_suspicions)} false`], ["Casts wait for slow members", found.holding ? "yes" : "no"]]),
      table("Members, the oldest first", [
        { title: "Member", cell: (row) => row.id }, { title: "User", cell: (row) => row.user }, { title: "Label", cell: (row) => row.label || "–" }, { title: "Home", number: true, cell: (row) => row.home },
        { title: "State", cell: (row) => row.suspected ? badge("suspected", "bad") : row.ready ? "ready" : "member" }, { title: "Has up to", number: true, cell: (row) => row.acked },
        { title: "Lacks", number: true, cell: (row) => found.last - row.acked },
        { title: "", cell: (row) => button("Expel", expel(row), { kind: "danger", disabled: !may, key: `expel ${row.id}`, label: `Expel ${row.label || row.id}` }) },
      ], found.members),
    ];
  },
};
