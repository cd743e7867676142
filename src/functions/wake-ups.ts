/** Queue trigger: one round for the order that a wake-up names. */
import { app } from "@azure/functions";
import { WAKE_UP_QUEUE } from "../core/names.ts";
import { onMessage } from "./app/on-message.ts";
import { CONNECTION } from "./app/settings.ts";
import { handleWakeUp } from "./app/wake-up-round.ts";

app.storageQueue("wakeUps", { queueName: WAKE_UP_QUEUE, connection: CONNECTION, handler: onMessage(handleWakeUp) });
