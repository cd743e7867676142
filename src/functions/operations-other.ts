/** What no other function of the operations API takes: a wrong method or path, told as a problem instead of the host's empty answer. */
import { app } from "@azure/functions";
import { refusing } from "./http/endpoint.ts";

app.http("operationsOther", {
  route: "operations/{*path}",
  methods: ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"],
  authLevel: "function",
  handler: refusing(),
});
