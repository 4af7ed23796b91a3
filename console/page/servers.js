// The map of replicas, their figures over time, views, links, traces.

import { get, post } from "./api.js";
import { WINDOW, badge, button, bytes, chart, el, facts, number, seconds, svg, table, time } from "./dom.js";

const GOOD = ["master", "slave", "witness", "daemon"];
const history = new Map();
let before = null;

/** Add a point to a line of figures that stays while the console is open. */
function point(name, value) {
  const points = history.get(name) || [];
  points.push({ value });
  if (points.length > WINDOW) points.shift();
  history.set(name, points);
  return points;
}

function rate(replica) {
  const now = { at: Date.now(), count: replica.notifications, who: `${replica.incarnation}` };
  const known = before && before.who === now.who && now.at > before.at && now.count >= before.count;
  const value = known ? (now.count - before.count) / ((now.at - before.at) / 1000) : 0;
  before = now;
  return value;
}

const kind = (role) => role === "master" ? "good" : GOOD.includes(role) ? "" : "bad";

/** A place on an ellipse: daemons of a mesh may all be connected with each other. */
function around(at, count, width) {
  const angle = 2 * Math.PI * (at + 0.5) / count + Math.PI / 2;
  return { x: width / 2 + width * 0.32 * Math.cos(angle), y: 118 + 78 * Math.sin(angle) };
}

const clients = (count) => `${number(count)} client${count === 1 ? "" : "s"}`;

function map(server) {
  const replicas = server.replicas, width = 640, height = 260, middle = { x: width / 2, y: 72 };
  const led = replicas.find((each) => each.role === "master");
  const others = replicas.filter((each) => each !== led);
  const places = new Map();
  if (led) places.set(led, middle);
  others.forEach((each, at) => places.set(each, led ? { x: width * (at + 1) / (others.length + 1), y: 188 } : around(at, others.length, width)));
  const words = replicas.map((each) => `replica ${each.replica} is ${each.role}`).join(", ");
  const drawing = svg("svg", { class: "map", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Server ${server.server}: ${words}` });
  const line = (from, to, joined) => drawing.append(svg("line", { class: joined ? "" : "off", x1: from.x, y1: from.y, x2: to.x, y2: to.y }));
  for (const each of led ? others : []) line(middle, places.get(each), (led.members || []).includes(each.replica));
  for (const each of led ? [] : replicas.filter((one) => one.mesh)) {
    for (const other of replicas) {
      if (each.replica < other.replica) line(places.get(each), places.get(other), each.mesh.daemons[other.replica]?.connected);
    }
  }
  for (const each of replicas) {
    const { x, y } = places.get(each);
    const sort = each.role === "master" ? "master" : GOOD.includes(each.role) ? "" : "wrong";
    drawing.append(svg("g", { class: sort }, svg("circle", { cx: x, cy: y, r: 33 }),
      svg("text", { x, y: y - 1 }, `${server.server}.${each.replica}`), svg("text", { x, y: y + 15, class: "soft" }, each.role.split(",")[0]),
      svg("text", { x, y: each === led ? y - 44 : y + 52, class: "soft" }, figures(each))));
  }
  return drawing;
}

function figures(each) {
  if (each.mesh) return clients(each.connections);
  return each.lag === undefined ? "no answer" : `${number(each.lag)} behind, ${clients(each.connections)}`;
}

function problems(server) {
  const found = server.differences.map((each) => `The cluster is not as the file says: ${each}.`);
  for (const each of server.replicas) {
    const name = `${server.server}.${each.replica}`;
    if (each.reason) found.push(`${name}: ${each.reason}`);
    const away = each.mesh ? Object.keys(each.mesh.daemons).filter((other) => !each.mesh.region.includes(Number(other))) : [];
    if (away.length) found.push(`${name} does not reach daemon ${away.join(", ")}.`);
    if (each.diagnosis) found.push(`${name}: ${each.diagnosis}`);
    if (each.divergence) found.push(`${name}: ${each.divergence}`);
    if (each.trace_problem) found.push(`${name}: the trace is not written: ${each.trace_problem}`);
    for (const [service, why] of Object.entries(each.services_failed || {})) found.push(`${name}: ${service} could not start: ${why}`);
  }
  return found.map((each) => el("p", { class: "problem" }, each));
}

function server(each) {
  return [el("h2", {}, `Server ${each.server}`), map(each), problems(each),
    table(`Replicas of ${each.server}`, [
      { title: "Replica", cell: (row) => el("a", { href: `#/servers/${encodeURIComponent(each.server)}/${row.replica}`, "data-key": `${each.server}.${row.replica}` }, `${each.server}.${row.replica}`) },
      { title: "Role", cell: (row) => badge(row.role, kind(row.role)) },
      { title: "View", number: true, cell: (row) => row.view },
      { title: "Committed", number: true, cell: (row) => row.commit },
      { title: "Behind", number: true, cell: (row) => row.lag },
      { title: "Clients", number: true, cell: (row) => row.connections },
      { title: "Agents", number: true, cell: (row) => row.agents },
      { title: "Dead letters", number: true, cell: (row) => row.dead_letters },
      { title: "Runs for", number: true, cell: (row) => seconds(row.uptime_s) },
      { title: "Address", cell: (row) => `${row.host}:${row.port}` },
    ], each.replicas)];
}

function ofMesh(replica) {
  const { mesh } = replica;
  return [
    ["Clients of this daemon", point("clients", mesh.clients)],
    ["Records that it keeps", point("records", mesh.records)],
    ["Bytes that it keeps", point("bytes", mesh.bytes), bytes],
    ["Records that it lacks", point("lacking", mesh.lacking)],
    ["Daemons that it reaches", point("region", mesh.region.length)],
    ["Furthest behind of the others, in records", point("behind", Math.max(0, ...Object.values(mesh.daemons).map((each) => each.behind)))],
  ];
}

export const overview = {
  path: "", menu: "Overview",
  title: () => "Overview",
  async show({ replica }) {
    const [found, views, figures] = await Promise.all([get(["servers"]), get(["views"]), get(["destinations"])]);
    const own = found.servers.find((each) => each.server === replica.server);
    if (replica.mesh) return [map(own), problems(own), el("h2", {}, "Now, and the last minutes"), el("div", { class: "charts" }, ofMesh(replica).map((each) => chart(...each)))];
    const waiting = figures.destinations.reduce((sum, each) => sum + (each.figures.messages || 0), 0);
    const lines = [
      ["Reactions in a second", point("rate", rate(replica)), (value) => value.toFixed(value < 10 ? 1 : 0)],
      ["Messages in queues and topics", point("waiting", waiting)],
      ["Notifications that wait to be ordered", point("queued", replica.queued)],
      ["Notifications for other servers", point("backlog", replica.backlog)],
      ["Clients", point("clients", Math.max(...own.replicas.map((each) => each.connections || 0)))],
      ["Furthest behind, in entries", point("lag", Math.max(...own.replicas.map((each) => each.lag || 0)))],
    ];
    return [
      map(own), problems(own),
      el("h2", {}, "Now, and the last minutes"), el("div", { class: "charts" }, lines.map((each) => chart(...each))),
      el("h2", {}, "Views"),
      table("Views of the replicas since this one began, the latest first: a new master is a failover", [
        { title: "Since", cell: (row) => time(row.at) }, { title: "View", cell: (row) => row.view },
        { title: "Master", number: true, cell: (row) => row.master }, { title: "Members", cell: (row) => row.members.join(", ") },
        { title: "Why", cell: (row) => row.reason },
      ], views.views.toReversed()),
    ];
  },
};

export const servers = {
  path: "servers", menu: "Servers",
  title: () => "Servers and replicas",
  async show() {
    return (await get(["servers"])).servers.map(server);
  },
};

export const replica = {
  path: "servers/:/:",
  title: (name, id) => `Replica ${name}.${id}`,
  async show({ args, replica: own, may, confirmed, act }) {
    const found = (await get(["servers"])).servers.find((each) => each.server === args[0]);
    const shown = found?.replicas.find((each) => String(each.replica) === args[1]);
    if (!shown) return ["There is no such replica."];
    const mine = own.server === shown.server && own.replica === shown.replica;
    const ask = (verb, path) => async () => {
      if (await confirmed(`${verb} ${shown.server}.${shown.replica}?`, verb)) await act(() => post(["replica", path]), "It was asked to.");
    };
    const links = Object.entries(shown.servers || {});
    return [
      el("p", {}, badge(shown.role, kind(shown.role)), " ", mine ? "This console is served by it." : ""),
      problems({ ...found, differences: [], replicas: [shown] }),
      mine && el("div", { class: "buttons" }, button("Restart", ask("Restart", "restart"), { disabled: !may }),
        button("Stop", ask("Stop", "stop"), { kind: "danger", disabled: !may })),
      facts(shown.reason ? [["Address", `${shown.host}:${shown.port}`]] : [
        ["View", number(shown.view)], ["Members", (shown.members || []).join(", ")], ["Master", number(shown.master)],
        ["Committed entries", number(shown.commit)], ["Applied entries", number(shown.applied)], ["Entries behind", number(shown.lag)],
        ["Clients", number(shown.connections)], ["Connections of the network", number(shown.network_connections)],
        ["Agents", number(shown.agents)], ["Reactions", number(shown.notifications)], ["Dead letters", number(shown.dead_letters)],
        ["Waiting to be ordered", number(shown.queued)], ["Waiting for other servers", number(shown.backlog)],
        ["Durability", shown.durability], ["Synced writes", number(shown.syncs)], ["Runs for", seconds(shown.uptime_s)],
        ["Process", String(shown.pid)], ["Address", `${shown.host}:${shown.port}`],
      ]),
      el("h2", {}, "Links to other servers"),
      table("Links", [
        { title: "Server", cell: ([name]) => name }, { title: "Connected", cell: ([, link]) => link.connected ? "yes" : badge("no", "bad") },
        { title: "Waiting", number: true, cell: ([, link]) => link.waiting },
      ], links),
      el("h2", {}, "What services count"),
      table("Counters and measures", [{ title: "Name", cell: ([name]) => name.replaceAll("_", " ") }, { title: "Value", number: true, cell: ([, value]) => value }],
        [...Object.entries(shown.counters || {}), ...Object.entries(shown.gauges || {})]),
    ];
  },
};

export const traces = {
  path: "traces", menu: "Traces",
  title: () => "Trace",
  async show({ replica: own }) {
    const found = await get(["traces"]);
    const sum = found.files.reduce((total, each) => total + each.size_bytes, 0);
    return [
      el("p", {}, `Replica ${own.server}.${own.replica} writes its trace into `, el("code", {}, found.directory),
        `: ${number(found.files.length)} files, ${bytes(sum)}. `, "Replay it with ", el("code", {}, `quorate replay verify ${found.directory}`), "."),
      own.trace_problem && el("p", { class: "problem" }, own.trace_problem),
      table("Files, the latest first", [
        { title: "File", cell: (row) => row.name }, { title: "Size", number: true, cell: (row) => bytes(row.size_bytes) },
        { title: "Changed", cell: (row) => time(row.changed) },
      ], found.files),
    ];
  },
};
