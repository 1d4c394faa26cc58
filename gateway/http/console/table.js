// A table that is refreshed in place: focus, selection and open details survive. Roles are written
// out because narrow screens show rows as cards, and display: block would take them away.

import { button, h, say } from "./dom.js";

const MOST_ROWS = 500;
const collator = new Intl.Collator(undefined, { numeric: true });

// columns: {label, value(row), make(row), numeric, mono, sort}. `value` gives text, which is also
// what is compared, sorted and searched; `make` gives nodes where text is not enough.
// `beside` stands beside the filter. actions(row): {label, work(row), does, danger, href, when(row)}; `when` shows a button only then.
export class LiveTable {
  constructor({ label, columns, key, actions = null, empty = "Nothing here.", filter = false, beside = null }) {
    this.columns = columns;
    this.key = key;
    this.actions = actions;
    this.empty = empty;
    this.rows = [];
    this.shown = new Map();
    this.order = null;
    this.body = h("tbody", { role: "rowgroup" });
    this.heads = columns.map((column, at) => this.head(column, at));
    if (actions) this.heads.push(h("th", { scope: "col", role: "columnheader", class: "actions-head" }, "Actions"));
    this.note = h("p", { class: "hint", role: "status" });
    const table = h("table", { role: "table", "aria-label": label },
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, this.heads)), this.body);
    this.filterInput = h("input", {
      type: "search", "aria-label": `Filter ${label}`, placeholder: "Filter", autocomplete: "off",
      spellcheck: "false", oninput: () => this.draw(),
    });
    this.node = h("div", { class: "table" }, filter ? h("div", { class: "filters" }, this.filterInput, beside) : null, table, this.note);
    this.tableNode = table;
  }

  head(column, at) {
    const made = h("th", {
      scope: "col", role: "columnheader", class: column.numeric ? "n" : undefined,
    });
    if (column.sort === false) made.append(column.label);
    else made.append(h("button", { type: "button", class: "sort", onclick: () => this.sort(at) }, column.label));
    return made;
  }

  sort(at) {
    const same = this.order?.at === at;
    const first = this.columns[at].numeric ? -1 : 1;
    this.order = { at, way: same ? -this.order.way : first };
    this.heads.forEach((one, i) => {
      if (i === at) one.setAttribute("aria-sort", this.order.way > 0 ? "ascending" : "descending");
      else one.removeAttribute("aria-sort");
    });
    this.draw();
  }

  update(rows) {
    this.rows = rows;
    this.draw();
  }

  fail(error) {
    this.rows = [];
    this.draw();
    say(this.note, error.message, "hint bad");
  }

  visible() {
    const wanted = this.filterInput.value.trim().toLowerCase();
    let rows = wanted
      ? this.rows.filter((row) => this.columns.some((one) =>
        String(one.value(row)).toLowerCase().includes(wanted)))
      : [...this.rows];
    if (this.order) {
      const { at, way } = this.order;
      const of = this.columns[at].sort ?? this.columns[at].value;
      rows.sort((a, b) => way * (this.columns[at].numeric
        ? Number(of(a)) - Number(of(b)) : collator.compare(of(a), of(b))));
    }
    return rows;
  }

  draw() {
    const found = this.visible();
    const rows = found.slice(0, MOST_ROWS);
    const keys = new Set();
    let before = null;
    for (const row of rows) {
      const key = String(this.key(row));
      keys.add(key);
      let kept = this.shown.get(key);
      if (!kept) {
        kept = this.make(row);
        this.shown.set(key, kept);
      }
      this.fill(kept, row);
      const next = before ? before.nextSibling : this.body.firstChild;
      if (next !== kept.node) this.body.insertBefore(kept.node, next);
      before = kept.node;
    }
    for (const [key, kept] of this.shown) {
      if (keys.has(key)) continue;
      kept.node.remove();
      this.shown.delete(key);
    }
    this.tableNode.hidden = rows.length === 0;
    let text = "";
    if (!this.rows.length) text = this.empty;
    else if (!rows.length) text = "Nothing matches the filter.";
    else if (found.length > rows.length) text = `${rows.length} of ${found.length} shown: use the filter.`;
    say(this.note, text, "hint");
  }

  make(row) {
    const kept = { row, texts: [], node: null, buttons: [] };
    const cells = this.columns.map((column, at) => h(at ? "td" : "th", {
      scope: at ? undefined : "row", role: at ? "cell" : "rowheader", "data-label": column.label,
      class: [column.numeric && "n", column.mono && "mono", column.className].filter(Boolean).join(" ") || undefined,
    }));
    if (this.actions) {
      kept.buttons = this.actions(row).map(({ label, does, danger, work, href, when }) => {
        const named = `${label} ${this.columns[0].value(row)}`;
        const node = href ? h("a", { href, class: "button", "aria-label": named }, label)
          : button(label, () => work(kept.row), {
            "aria-label": does ?? named, class: danger ? "danger" : undefined,
          });
        return { node, when };
      });
      cells.push(h("td", { role: "cell", class: "actions-cell" },
        h("div", {}, kept.buttons.map((one) => one.node))));
    }
    kept.cells = cells;
    kept.node = h("tr", { role: "row" }, cells);
    return kept;
  }

  fill(kept, row) {
    kept.row = row;
    this.columns.forEach((column, at) => {
      const text = String(column.value(row) ?? "");
      if (kept.texts[at] === text) return;
      kept.texts[at] = text;
      const cell = kept.cells[at];
      if (column.make) cell.replaceChildren(...[column.make(row)].flat());
      else cell.textContent = text;
      cell.classList.toggle("empty", text === "");
    });
    const focused = kept.buttons.find((one) => one.node === document.activeElement);
    for (const { node, when } of kept.buttons) node.hidden = when !== undefined && !when(row);
    // The button that was pressed may be gone now: the focus stays in its row.
    if (focused?.node.hidden) kept.buttons.find((one) => !one.node.hidden)?.node.focus();
  }
}
