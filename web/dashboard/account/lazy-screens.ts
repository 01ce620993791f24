/** The screens for the account and for developers, loaded together. */
import { ApiKeys } from "../developers/api-keys.tsx";
import { Webhooks } from "../developers/webhooks.tsx";
import { Invitations } from "./invitations.tsx";
import { Members } from "./members.tsx";
import { Security } from "./security.tsx";
import { Settings } from "./settings.tsx";

export const screens = {
  "/developers/keys": ApiKeys,
  "/developers/webhooks": Webhooks,
  "/invitations": Invitations,
  "/members": Members,
  "/security": Security,
  "/settings": Settings,
};
