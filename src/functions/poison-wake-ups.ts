/** Queue trigger: wake-ups that the host gave up on become wake-ups again (F6). */
import { app } from "@azure/functions";
import { POISON_QUEUE } from "../core/names.ts";
import { onMessage } from "./app/on-message.ts";
import { CONNECTION } from "./app/settings.ts";
import { revivePoison } from "./app/wake-up-round.ts";

app.storageQueue("poisonWakeUps", { queueName: POISON_QUEUE, connection: CONNECTION, handler: onMessage(revivePoison) });
