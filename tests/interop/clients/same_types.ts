// The answers of the shipped JavaScript client are those that openapi-typescript makes of the
// description. Never run: the compiler reads it.

import type * as made from "./answers.js";
import type { components } from "./api.js";

type Described = components["schemas"];
type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false;

export const same: {
  queue: Same<made.QueueDetail, Described["QueueDetail"]>;
  exchange: Same<made.ExchangeView, Described["ExchangeView"]>;
  binding: Same<made.BindingView, Described["BindingView"]>;
  consumer: Same<made.ConsumerView, Described["ConsumerView"]>;
  session: Same<made.Session, Described["Session"]>;
  removed: Same<made.Removed, Described["Removed"]>;
  page: Same<made.Page, Described["Page"]>;
  event: Same<made.EventMessage, Described["EventMessage"]>;
} = {
  queue: true, exchange: true, binding: true, consumer: true, session: true, removed: true, page: true, event: true,
};

// Types that differ would be found.
export const other: Same<made.QueueDetail, Described["QueueView"]> = false;
