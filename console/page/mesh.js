// A mesh: whom this daemon reaches, its topics and persistent subscriptions.

import { call, get, post } from "./api.js";
import { badge, button, bytes, el, facts, field, number, table } from "./dom.js";

const NONE = 'Only a server with mode="mesh" has daemons and topics that go on alone.';

function standing(row) {
  if (row.reached) return badge("reached", "good");
  return row.known ? badge("not reached", "bad") : badge("never heard of", "warn");
}

export const mesh = {
  path: "mesh", menu: "Mesh",
  title: () => "Mesh",
  controls({ may, act }) {
    const name = el("input", { name: "topic", required: true });
    const full = el("select", { name: "full" }, el("option", { value: "refuse" }, "refuse publishers"), el("option", { value: "end" }, "end the slowest subscription"));
    const form = el("form", { class: "row" }, field("New topic", name), field("When it is full", full), el("button", { disabled: !may }, "Create"));
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (await act(() => post(["mesh", "topics"], { name: name.value, on_full: full.value }), `Topic ${name.value} was created.`)) name.value = "";
    });
    return [form];
  },
  async show({ replica, may, confirmed, act }) {
    if (replica.mode !== "mesh") return [el("p", { class: "soft" }, NONE)];
    const [topics, subscriptions] = await Promise.all([get(["mesh", "topics"]), get(["mesh", "subscriptions"])]);
    const own = replica.mesh;
    const remove = (row) => async () => {
      if (await confirmed(`Delete the topic ${row.name}, with its messages and subscriptions?`, "Delete")) await act(() => call("DELETE", ["mesh", "topics", row.name]), `Topic ${row.name} was deleted.`);
    };
    const end = (row) => async () => {
      if (await confirmed(`End the subscription ${row.name} to ${row.topic}?`, "End")) await act(() => call("DELETE", ["mesh", "topics", row.topic, "subscriptions", row.name]), `Subscription ${row.name} has ended.`);
    };
    return [
      own.forgotten && el("p", { class: "problem" }, "The others have forgotten this daemon: add it again, with quorate mesh add."),
      facts([["This daemon", own.daemon], ["Reaches", own.region.join(", ")], ["Clients", number(own.clients)], ["Consumers", number(own.consumers)],
        ["Records kept", number(own.records)], ["Kept", bytes(own.bytes)], ["Records it lacks", number(own.lacking)]]),
      table("The daemons, as this one knows them", [
        { title: "Daemon", number: true, cell: (row) => row.daemon }, { title: "Standing", cell: standing },
        { title: "Connected here", cell: (row) => row.daemon === own.daemon ? "itself" : row.connected ? "yes" : "no" },
        { title: "Connected with", cell: (row) => row.links.join(", ") || "none" }, { title: "Records behind", number: true, cell: (row) => row.behind },
      ], Object.entries(own.daemons).map(([id, row]) => ({ ...row, daemon: Number(id) }))),
      el("h2", {}, "Topics"),
      table("Topics, and what this daemon keeps of them", [
        { title: "Topic", cell: (row) => row.name }, { title: "Subscriptions", number: true, cell: (row) => row.subscriptions },
        { title: "Records", number: true, cell: (row) => row.records }, { title: "Kept", number: true, cell: (row) => bytes(row.bytes) },
        { title: "At most", number: true, cell: (row) => bytes(row.topic_bytes) }, { title: "When it is full", cell: (row) => row.on_full === "end" ? "the slowest subscription ends" : "publishers are refused" },
        { title: "", cell: (row) => button("Delete", remove(row), { kind: "danger", disabled: !may, key: `delete ${row.name}`, label: `Delete topic ${row.name}` }) },
      ], topics.topics),
      el("h2", {}, "Subscriptions"),
      table("Persistent subscriptions, the one that is furthest behind first", [
        { title: "Topic", cell: (row) => row.topic }, { title: "Subscription", cell: (row) => row.name }, { title: "User", cell: (row) => row.user },
        { title: "Behind", number: true, cell: (row) => row.behind }, { title: "Connected here", cell: (row) => row.attached ? "yes" : "no" },
        { title: "", cell: (row) => button("End", end(row), { kind: "danger", disabled: !may, key: `end ${row.id}`, label: `End subscription ${row.name} to ${row.topic}` }) },
      ], subscriptions.subscriptions),
    ];
  },
};
