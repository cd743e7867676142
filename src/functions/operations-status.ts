/** `GET operations/status`: how much waits where. */
import { app } from "@azure/functions";
import { z } from "zod";
import { readStatus } from "../operations/status.ts";
import { reading } from "./http/endpoint.ts";
import { operation } from "./http/routes.ts";

app.http("operationsStatus", { ...operation("status"), authLevel: "function", handler: reading(z.strictObject({}), readStatus) });
