// Agents, their timers, and dead letters.

import { ApiProblem, call, get, post } from "./api.js";
import { badge, button, bytes, el, facts, field, number, table, time } from "./dom.js";

const link = (id, text = id) => el("a", { href: `#/agents/${encodeURIComponent(id)}`, "data-key": `agent ${id}` }, text);
const wanted = { name: "", class: "", platform: false, pages: [""] };

export const agents = {
  path: "agents", menu: "Agents",
  title: () => "Agents",
  controls(context) {
    const name = el("input", { type: "search", value: wanted.name, placeholder: "alice, or order*" });
    const sort = el("input", { type: "search", value: wanted.class, placeholder: "bank.account/1" });
    const platform = el("input", { type: "checkbox", checked: wanted.platform });
    const form = el("form", { class: "row" }, field("Name or id", name), field("Class", sort),
      el("label", {}, platform, " agents of the platform, too"), el("button", {}, "Search"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      Object.assign(wanted, { name: name.value.trim(), class: sort.value.trim(), platform: platform.checked, pages: [""] });
      context.refresh();
    });
    return [form];
  },
  async show({ refresh }) {
    const after = wanted.pages[wanted.pages.length - 1];
    const found = await get(["agents"], { name: wanted.name, class: wanted.class, platform: wanted.platform || "", after });
    return [
      table(`Agents, page ${wanted.pages.length}`, [
        { title: "Id", cell: (row) => link(row.id) }, { title: "Name", cell: (row) => row.name || "–" },
        { title: "Class", cell: (row) => row.class }, { title: "Reactions", number: true, cell: (row) => row.reactions },
        { title: "State", cell: (row) => row.paused ? badge(`paused, ${number(row.held)} waiting`, "warn") : "runs" },
      ], found.agents),
      el("div", { class: "buttons" },
        button("Page before", () => { wanted.pages.pop(); refresh(); }, { disabled: wanted.pages.length < 2 }),
        button("Next page", () => { wanted.pages.push(found.next); refresh(); }, { disabled: !found.next })),
    ];
  },
};

const drafts = new Map();

export const agent = {
  path: "agents/:", every: 5000,
  title: (id) => `Agent ${id}`,
  controls({ args, may, act }) {
    const draft = drafts.get(args[0]) || { type: "", fields: "{}", wait: true };
    drafts.set(args[0], draft);
    const type = el("input", { value: draft.type, required: true, placeholder: "bank.deposit, or module:Class", size: 34 });
    const fields = el("textarea", { value: draft.fields, spellcheck: false });
    const wait = el("input", { type: "checkbox", checked: draft.wait });
    const answer = el("pre", { hidden: true, tabIndex: 0, "aria-label": "Answer" });
    const form = el("form", { class: "box" }, field("Type of the notification", type), field("Fields, as JSON", fields),
      el("label", {}, wait, " wait for the answer"), el("div", { class: "buttons" }, el("button", { disabled: !may }, "Send")), answer);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      Object.assign(draft, { type: type.value, fields: fields.value, wait: wait.checked });
      let given;
      try { given = JSON.parse(fields.value); } catch { fields.setCustomValidity("This is no JSON."); fields.reportValidity(); fields.setCustomValidity(""); return; }
      answer.hidden = true;
      await act(async () => {
        const found = await post(["agents", args[0], "notifications"], { type: type.value, fields: given, wait: wait.checked });
        if (found) { answer.textContent = `${found.type} ${JSON.stringify(found.value, null, 2)}`; answer.hidden = false; }
      }, "It was sent.");
    });
    return [el("details", {}, el("summary", {}, "Send a notification"), form)];
  },
  async show({ args: [id], may, leads, confirmed, act }) {
    const found = await get(["agents", id]);
    const did = await get(["agents", found.id, "reactions"], { limit: 20 }).then((each) => each.reactions, (error) => error);
    const due = leads ? (await get(["timers"], { agent: id })).timers : [];
    const order = (verb) => () => act(() => post(["agents", id, verb]), `Agent ${id}: ${verb}d.`);
    const remove = async () => {
      if (await confirmed(`Delete agent ${found.name || found.id}, with its state and its timers? This cannot be undone.`, "Delete")
        && await act(() => call("DELETE", ["agents", id]), `Agent ${id} is deleted.`)) location.hash = "#/agents";
    };
    return [
      facts([["Id", found.id], ["Name", found.name || "–"], ["Class", found.class], ["Reactions", number(found.reactions)],
        ["State", found.paused ? badge(`paused, ${number(found.held)} waiting`, "warn") : "runs"]]),
      el("div", { class: "buttons" }, found.paused ? button("Resume", order("resume"), { disabled: !may }) : button("Pause", order("pause"), { disabled: !may }),
        button("Delete", remove, { kind: "danger", disabled: !may })),
      el("h2", {}, "Attributes"), el("pre", { tabIndex: 0, "aria-label": "Attributes" }, JSON.stringify(found.state, null, 2)),
      el("h2", {}, "Last reactions"), did instanceof ApiProblem ? el("p", { class: "soft" }, did.message) : reactionTable(did),
      el("h2", {}, "Timers"), leads ? timerTable(due, may, act, "Its timers, as they are due") : el("p", { class: "soft" }, "The master has them."),
    ];
  },
};

function reactionTable(rows) {
  return table("What it did last, as the trace of this replica has it: some seconds late", [
    { title: "At", cell: (row) => time(row.at) }, { title: "Type", cell: (row) => row.kind === "react" ? row.type : `${row.kind} ${row.type}` },
    { title: "From", cell: (row) => row.sender }, { title: "Sent", number: true, cell: (row) => row.sends },
    { title: "Took", number: true, cell: (row) => row.duration_s ? `${(row.duration_s * 1000).toFixed(2)} ms` : "–" },
    { title: "Failed", cell: (row) => row.error ? badge(row.error, "bad") : "no" },
  ], rows);
}

function timerTable(rows, may, act, caption) {
  return table(caption, [
    { title: "Number", number: true, cell: (row) => row.number }, { title: "Agent", cell: (row) => link(row.agent) },
    { title: "Due", cell: (row) => time(row.due) }, { title: "Type", cell: (row) => row.type },
    { title: "Size", number: true, cell: (row) => bytes(row.size_bytes) },
    { title: "", cell: (row) => button("Cancel", () => act(() => call("DELETE", ["agents", row.agent, "timers", row.number]), `Timer ${row.number} is cancelled.`),
      { disabled: !may, key: `cancel ${row.number}`, label: `Cancel timer ${row.number}` }) },
  ], rows);
}

export const timers = {
  path: "timers", menu: "Timers",
  title: () => "Timers",
  async show({ may, act }) {
    return [timerTable((await get(["timers"])).timers, may, act, "The first 100 timers, as they are due")];
  },
};

export const deadLetters = {
  path: "dead-letters", menu: "Dead letters",
  title: () => "Dead letters",
  async show({ may, act, confirmed }) {
    const found = (await get(["dead-letters"])).dead_letters;
    const drop = (row) => async () => {
      if (await confirmed(`Drop dead letter ${row.number}? This cannot be undone.`, "Drop")) await act(() => call("DELETE", ["dead-letters", row.number]), `Dead letter ${row.number} is dropped.`);
    };
    return [table("Notifications that could be delivered to nobody: the first 100, the oldest first", [
      { title: "Number", number: true, cell: (row) => row.number }, { title: "Since", cell: (row) => time(row.at) },
      { title: "From", cell: (row) => row.sender }, { title: "To", cell: (row) => row.to }, { title: "Type", cell: (row) => row.type },
      { title: "Why", cell: (row) => row.reason }, { title: "Size", number: true, cell: (row) => bytes(row.size_bytes) },
      { title: "", cell: (row) => el("div", { class: "buttons" },
        button("Send again", () => act(() => post(["dead-letters", row.number, "resend"], {}), `Dead letter ${row.number} was sent again.`),
          { disabled: !may || !row.whole, key: `resend ${row.number}`, label: `Send dead letter ${row.number} again` }),
        button("Drop", drop(row), { kind: "danger", disabled: !may, key: `drop ${row.number}`, label: `Drop dead letter ${row.number}` })) },
    ], found)];
  },
};
