// Queues, topics and transactions.

import { call, get, post } from "./api.js";
import { badge, button, bytes, el, facts, field, number, table, time } from "./dom.js";

const NAMES = { queue: "Queues", topic: "Topics" };

function counts(kind) {
  return [
    { title: "Name", cell: (row) => [el("a", { href: `#/${kind}s/${encodeURIComponent(row.title)}`, "data-key": row.title }, row.title), row.paused ? [" ", badge("paused", "warn")] : ""].flat() },
    { title: "Messages", number: true, cell: (row) => row.depth }, { title: "Size", number: true, cell: (row) => bytes(row.size_bytes) },
    { title: "Consumers", number: true, cell: (row) => row.consumers }, { title: "Producers", number: true, cell: (row) => row.producers },
    { title: "Blocked", number: true, cell: (row) => row.blocked }, { title: "Received", number: true, cell: (row) => row.received },
    { title: "Acknowledged", number: true, cell: (row) => row.accepted }, { title: "Dead", number: true, cell: (row) => row.dead },
  ].map((each) => each.title === "Name" ? { ...each, cell: (row) => el("span", {}, ...each.cell(row)) } : each);
}

/** A row of figures in the words of the details. */
function described(each) {
  const { messages, bytes: size, consumers, producers, blocked_producers: blocked, received, accepted, dead, paused } = each.figures;
  return { title: each.name, depth: messages, size_bytes: size, consumers, producers, blocked, received, accepted, dead, paused: paused === 1 };
}

export function destinations(kind) {
  let wanted = "";
  return {
    path: `${kind}s`, menu: NAMES[kind],
    title: () => NAMES[kind],
    controls({ may, act, refresh }) {
      const search = el("input", { type: "search", value: wanted, oninput: () => { wanted = search.value.trim(); refresh(); } });
      const name = el("input", { required: true });
      const most = el("input", { type: "number", min: 0, value: 0 });
      const dead = el("input", {});
      const flag = el("input", { type: "checkbox" });
      const form = el("form", { class: "row" }, field("Name", name), field("Most messages (0: no limit)", most), kind === "queue" ? field("Queue for dead messages", dead) : "",
        el("label", {}, flag, kind === "queue" ? " a message replaces the one with its key" : " a tree of topics"), el("button", { disabled: !may }, `Make the ${kind}`));
      form.addEventListener("submit", async (event) => {
        event.preventDefault();
        const body = { max_messages: Number(most.value), [kind === "queue" ? "last_value" : "tree"]: flag.checked };
        if (dead.value) body.dead_queue = dead.value;
        if (await act(() => call("PUT", [`${kind}s`, name.value], { body }), `The ${kind} ${name.value} was made.`)) form.reset();
      });
      return [el("details", {}, el("summary", {}, `Make a ${kind}`), form), el("div", { class: "row" }, field("Search", search))];
    },
    async show() {
      // Figures are read from this replica: a list costs the log of the server nothing.
      const found = (await get(["destinations"])).destinations.filter((each) => each.kind === kind && each.name.includes(wanted));
      return [table(`${NAMES[kind]}, as this replica has them: the first 1000 by name`, counts(kind), found.map(described))];
    },
  };
}

function subscriptions(found) {
  return table("Subscriptions", [
    { title: "Name", cell: (row) => row.name || "–" }, { title: "Client id", cell: (row) => row.client_id || "–" },
    { title: "Topics", cell: (row) => row.pattern || "–" }, { title: "Selector", cell: (row) => row.selector || "–" },
    { title: "Durable", cell: (row) => row.durable ? "yes" : "no" }, { title: "Waiting", number: true, cell: (row) => row.waiting },
    { title: "In hand", number: true, cell: (row) => row.in_hand }, { title: "Consumers", number: true, cell: (row) => row.consumers },
  ], found.subscriptions);
}

function messages(found) {
  return table("Messages that no consumer has, the first 50", [
    { title: "Number", number: true, cell: (row) => row.number },
    { title: "Body", cell: (row) => { const text = typeof row.body === "string" ? row.body : JSON.stringify(row.body); return text.length > 300 ? `${text.slice(0, 300)}…` : text; } },
    { title: "Properties", cell: (row) => Object.entries(row).filter(([name]) => name !== "number" && name !== "body").map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(" ") },
  ], found);
}

export function destination(kind) {
  return {
    path: `${kind}s/:`, every: 4000,
    title: (name) => `${kind === "queue" ? "Queue" : "Topic"} ${name}`,
    controls({ args: [name], may, act }) {
      if (kind !== "queue") return [];
      const to = el("input", { required: true });
      const most = el("input", { type: "number", min: 1, max: 1000000, value: 1000 });
      const form = el("form", { class: "row" }, field("To the queue", to), field("How many at most", most), el("button", { disabled: !may }, "Move"));
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        act(() => post(["queues", name, "move"], { to: to.value, limit: Number(most.value) }), (done) => `${number(done.moved)} messages were moved.`);
      });
      return [el("details", {}, el("summary", {}, "Move messages to another queue"), form)];
    },
    async show({ args: [name], leads, may, act, confirmed }) {
      if (!leads) {
        const found = (await get(["destinations"])).destinations.find((each) => each.kind === kind && each.name === name);
        return found ? [facts(Object.entries(found.figures).map(([key, value]) => [key.replaceAll("_", " "), number(value)])),
          el("p", { class: "soft" }, "The master shows messages and subscriptions.")] : [`There is no ${kind} ${name}.`];
      }
      const found = await get([`${kind}s`, name]);
      const waiting = kind === "queue" ? (await get(["queues", name, "messages"], { limit: 50 })).messages : [];
      const pause = () => act(() => post([`${kind}s`, name, found.paused ? "resume" : "pause"]), found.paused ? "The delivery goes on." : "The delivery is paused.");
      const purge = async () => {
        if (await confirmed(`Drop all messages of ${kind} ${name} that no consumer has? This cannot be undone.`, "Drop them"))
          await act(() => post([`${kind}s`, name, "purge"]), (done) => `${number(done.dropped)} messages were dropped.`);
      };
      return [
        facts([["Messages", number(found.depth)], ["Size", bytes(found.size_bytes)], ["Consumers", number(found.consumers)], ["Producers", `${number(found.producers)}, ${number(found.blocked)} wait for room`],
          ["Transactions", number(found.transactions)], ["Received", number(found.received)], ["Delivered", number(found.delivered)], ["Acknowledged", number(found.accepted)],
          ["Dead", number(found.dead)], ["Delivery", found.paused ? badge("paused", "warn") : "goes on"]]),
        el("div", { class: "buttons" }, button(found.paused ? "Resume the delivery" : "Pause the delivery", pause, { disabled: !may, key: "pause" }),
          button("Drop the messages", purge, { kind: "danger", disabled: !may, key: "purge" })),
        found.links.length ? table("Links", [{ title: "Does", cell: (row) => row.does }, { title: "With", cell: (row) => row.target }, { title: "Moved", number: true, cell: (row) => row.moved },
          { title: "Under way", number: true, cell: (row) => row.under_way }, { title: "Problem", cell: (row) => row.problem || "–" }], found.links) : "",
        kind === "queue" ? messages(waiting) : subscriptions(found),
      ];
    },
  };
}

export const transactions = {
  path: "transactions", menu: "Transactions", every: 4000,
  title: () => "Transactions in doubt",
  async show({ may, act, confirmed }) {
    const found = (await get(["transactions"])).transactions;
    const end = (row, verb) => async () => {
      const question = `${verb} transaction ${row.transaction} ${row.branch} by hand? Its transaction manager may decide otherwise.`;
      const { format, transaction, branch } = row;
      if (await confirmed(question, verb)) await act(() => post(["transactions", verb.toLowerCase()], { format, transaction, branch }), "It is done.");
    };
    const verbs = (row) => row.ended ? ["Forget"] : ["Commit", "Rollback"];
    return [el("p", { class: "soft" }, "Prepared transactions (XA) whose transaction manager has not said how they end."),
      table("Transactions", [
        { title: "Format", number: true, cell: (row) => row.format }, { title: "Transaction", cell: (row) => row.transaction }, { title: "Branch", cell: (row) => row.branch || "–" },
        { title: "Prepared", cell: (row) => time(row.prepared) }, { title: "State", cell: (row) => row.ended ? `${row.ended} by an administrator` : badge("in doubt", "warn") },
        { title: "Destinations", cell: (row) => row.destinations.join(", ") },
        { title: "", cell: (row) => el("div", { class: "buttons" }, verbs(row).map((verb) => button(verb, end(row, verb),
          { disabled: !may, key: `${verb} ${row.format} ${row.transaction} ${row.branch}`, label: `${verb} transaction ${row.transaction} ${row.branch}` }))) },
      ], found)];
  },
};
