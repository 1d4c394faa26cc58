// Mistakes that the types have to find: each line below a comment is one.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

const client = createClient<paths>({ baseUrl: "http://127.0.0.1" });
const params = { path: { vhost: "/", queue: "q" } };

// @ts-expect-error a priority is a number
export const priority: components["schemas"]["NewMessage"] = { priority: "high" };

// @ts-expect-error the member is called durable
export const member: components["schemas"]["QueueInput"] = { durabel: true };

export async function mistakes(): Promise<void> {
  const { data } = await client.POST("/v1/{vhost}/queues/{queue}/deliveries", { params });
  // @ts-expect-error deliveries have no such member
  console.log(data?.deliveries[0]?.mesage);
  // @ts-expect-error there is no such path
  await client.GET("/v1/{vhost}/queue", { params });
}
